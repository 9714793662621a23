"""Values that are not Gaussian: yes or no, counts, ordered stars.

A likelihood says how likely a value is given the latent number eta = f + effects of its entry, with
two derivatives; Newton's method makes of it one weighted ridge problem after the other, each solved
by a solver of :mod:`kronfill.solvers`. How good a ridge weight is, is told by leaving single
observations out, approximately. Estimators are in :mod:`kronfill.estimators`.
"""
