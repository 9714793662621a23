"""Longer studies on real data, each with its table in docs/results.md: ``python -m studies``.

Every method at once in a minute is ``kronfill bench``; time and memory are in ``benchmarks``.
"""
