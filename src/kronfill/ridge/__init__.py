"""The one problem behind every method: a ridge regression over the observed entries.

The problem with its unpenalised effects, the systems that state it in the coordinates of a solver,
and the solution with what can be said about its accuracy. How a system is solved is in
:mod:`kronfill.solvers`, how sure the result is in :mod:`kronfill.uncertainty`.
"""
