"""The command line: parse, call the library, print.

Exit codes: 0 done; 1 the work failed; 2 the input or the options cannot be used; 130 interrupted.
"""

from __future__ import annotations

import os
import signal
from typing import Any

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    if name != "app":
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from kronfill.cli.program import app

    return app


def main() -> None:
    """Entry point."""
    _imported()()


def _imported() -> Any:
    """Import the commands; Ctrl-C meanwhile ends the process: nothing has been begun yet.

    As an exception it would come up inside of some module, be shown there or be lost.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, _leave)
    try:
        from kronfill.cli.program import run
    finally:
        if usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    return run


def _leave(number: int, frame: Any) -> None:
    os.write(2, b"Error: Interrupted; nothing was written.\n")
    os._exit(130)
