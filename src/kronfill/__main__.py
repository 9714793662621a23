"""``python -m kronfill``."""

from kronfill.cli import main

main()
