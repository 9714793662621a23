"""Every method on real data beside published results: ``kronfill bench``.

``problems`` has the data with what is known about rows and columns, ``run`` the splits, the
methods and the printed table. Not here: measurements of speed (``benchmarks/`` of the repository),
longer studies of single data sets (``studies/``), the accuracy on a user's own table
(:mod:`kronfill.completion`).
"""
