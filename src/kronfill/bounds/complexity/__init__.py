"""Random signs: their laws, the matrices they make, and complexities by Monte Carlo."""
