"""Solutions that follow their observations: factorisations that grow, running sums, warm starts.

The linear algebra of observations that come and go; ``partial_fit`` and the like are in
:mod:`kronfill.estimators.updates`.
"""
