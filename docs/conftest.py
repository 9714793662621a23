"""Pages about data that are not in the package run where these are."""

import os
from pathlib import Path

DATA = Path(os.environ.get("KRONFILL_DATA") or ".nowhere")
NEEDED = {"for-recommenders.md": "flixster", "for-pharma.md": "davis"}
collect_ignore = [page for page, folder in NEEDED.items() if not (DATA / folder).is_dir()]
