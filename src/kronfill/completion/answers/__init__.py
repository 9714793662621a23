"""What a completed table answers by label: new items, what comes next, questions, pictures.

The :class:`~kronfill.Completion` that is asked is in :mod:`kronfill.completion.table`.
"""
