"""``python -m kronfill.cli``, which is ``python -m kronfill``."""

from kronfill.cli import main

main()
