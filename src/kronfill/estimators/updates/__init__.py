"""Estimators whose observations keep arriving.

What ``partial_fit``, ``forget``, ``revise`` and ``fold_in`` do. The arithmetic is in
:mod:`kronfill.online`.
"""
