"""Model files: fitted estimators and completed tables as one file of plain data, no code.

The format is described in docs/files.md.
"""

from kronfill.io.models import load, save, write_model

__all__ = ["load", "save", "write_model"]
