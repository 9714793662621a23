"""Every method on real data beside published results: ``kronfill bench``.

Measurements of speed are not here but under ``benchmarks/`` of the repository.
"""
