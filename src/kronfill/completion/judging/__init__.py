"""How good a completed table is: entries, rows and columns are hidden, predicted and compared.

What is said of single entries is in :mod:`kronfill.completion.entries`.
"""
