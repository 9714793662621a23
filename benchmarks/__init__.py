"""Side-by-side measurements of time and memory: ``make bench``, or ``python -m benchmarks.NAME``.

Accuracy is not measured here but in ``studies`` and by ``kronfill bench``.
"""
