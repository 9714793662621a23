"""How good a ridge weight is, for a whole grid of them, and how that changes with the kernels.

Leave-one-out error, generalised cross-validation and likelihood: exact by one reduction, or
stochastic where there are too many observations. Choosing by them is in :mod:`kronfill.selection`.
"""
