"""Numbers of things in messages: one feature, two features."""

from __future__ import annotations

__all__ = ["count_of"]


def count_of(n: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    Examples
    --------
    >>> from kronfill.data._counts import count_of
    >>> count_of(1, "feature"), count_of(2000, "feature"), count_of(0, "entry", "entries")
    ('1 feature', '2,000 features', '0 entries')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"
