"""How sure a ridge solution is: posterior variances, joint samples, what to observe next.

Everything is asked about entries given as *queries*. Conformal intervals, which do not rest on the
model, are an estimator (:mod:`kronfill.estimators.conformal`).
"""
