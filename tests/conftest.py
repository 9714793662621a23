"""Settings of the whole suite."""

from __future__ import annotations

import os

from hypothesis import settings

# Locally every run looks at new examples; where a run decides something, it is repeatable.
settings.register_profile("repeatable", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("repeatable")
