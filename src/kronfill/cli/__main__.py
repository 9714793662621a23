"""``python -m kronfill.cli``."""

from kronfill.cli import main

main()
