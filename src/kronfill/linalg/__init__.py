"""Linear algebra of the sampled Kronecker problem: factors, operators, solvers, effects.

Nothing here knows about estimators. A *solver* takes a :class:`~kronfill.linalg.ridge.RidgeProblem`
and returns a :class:`~kronfill.linalg.ridge.RidgeResult`, which carries a
:class:`~kronfill.linalg.solution.Solution` that says how the solve went.
"""
