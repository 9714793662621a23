"""Model files: fitted estimators and completed tables as one file of plain data, no code.

The format is described in docs/files.md.
"""

from kronfill.io.models import load, save

__all__ = ["load", "save"]
