"""Low rank by variational Bayes: posterior factors whose noise, scales and number are learned.

The compiled half-step, the priors of the factors over the items of an axis, and the sweeps with
the lower bound on the evidence that they never lower. The estimator is
:class:`kronfill.BayesianKMC`.
"""
