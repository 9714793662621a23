"""Methods that are the posterior mean of a Gaussian process: what that gives besides values."""
