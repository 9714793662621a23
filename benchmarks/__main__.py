"""Run all measurements, or the ones named."""

from __future__ import annotations

import importlib
import sys

NAMES = ("closed_form", "mc_als")

if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
