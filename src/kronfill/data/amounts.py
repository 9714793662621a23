"""Numbers of things in messages: one feature, two features, 3 MB, 12 s."""

from __future__ import annotations

__all__ = ["count_of", "duration_of", "size_of"]

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def count_of(n: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    Examples
    --------
    >>> from kronfill.data.amounts import count_of
    >>> count_of(1, "feature"), count_of(2000, "feature"), count_of(0, "entry", "entries")
    ('1 feature', '2,000 features', '0 entries')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def duration_of(seconds: float) -> str:
    """A number of seconds.

    Examples
    --------
    >>> from kronfill.data.amounts import duration_of
    >>> duration_of(0.84), duration_of(42.3), duration_of(5220.3)
    ('0.8 s', '42 s', '5,220 s')
    """
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:,.0f} s"


def size_of(count: float) -> str:
    """A number of bytes: 1 MB is 10^6 of them and 1 GB 10^9, as wherever memory is given.

    Examples
    --------
    >>> from kronfill.data.amounts import size_of
    >>> size_of(2e9), size_of(31_415_926), size_of(999_999), size_of(12)
    ('2 GB', '31.4 MB', '1 MB', '12 B')
    """
    rounded = float(f"{count:.3g}")
    power = 0
    while rounded >= 1000 and power < len(_UNITS) - 1:
        rounded, power = rounded / 1000, power + 1
    return f"{rounded:,.4g} {_UNITS[power]}"
