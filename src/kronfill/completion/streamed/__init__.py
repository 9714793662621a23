"""Tables that are not in memory, completed where they are.

The fits themselves are in :mod:`kronfill.streaming`.
"""
