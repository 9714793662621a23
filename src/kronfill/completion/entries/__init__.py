"""What is said of every entry: value, status and an interval of its own kind.

How good all of them are together is asked in :mod:`kronfill.completion.judging`.
"""
