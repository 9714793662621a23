"""Forged model files, loaded and used under limits of memory and time, in a process of their own.

``python -m tests.trying NAME,NAME,... FIRST COUNT`` writes a line before and after each file, so
that it is known which of them ended the process, if one does.
"""

from __future__ import annotations

import copy
import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import kronfill as kf
from kronfill.errors import KronfillError
from kronfill.io.limits import FREE, TIMES

from .forging import L, N, bytes_of, columns_of_every_kind, forged, frame, some_data

SECONDS = 20.0
"""Time to load a file of some kilobytes, and to use it."""
DATA = 2**30
"""Bytes that may be allocated beyond what the imports took."""


def allowed(size):
    """Bytes of memory that docs/files.md allows to open a file."""
    return FREE + 2 * TIMES * size


# What is done with a model that was loaded.


def method_of(model):
    """The fitted method in a completed table, or in what wraps it."""
    return getattr(model, "model", getattr(model, "estimator_", model))


def asked_of(model):
    """What a service would ask of a model, each as a function."""
    est, again = method_of(model), (lambda: copy.deepcopy(model))
    n, l = est.shape_
    pairs = np.argwhere(np.ones((min(N, n), min(L, l))))
    X, y, _ = some_data()
    asked = {
        "predict": lambda: est.predict(pairs),
        "predict_matrix": lambda: est.predict_matrix(),
        "predict_frame": lambda: est.predict(pd.DataFrame(pairs, columns=["place", "day"])),
        "extrapolate_frame": lambda: est.extrapolate(rows=frame(2)),
        "extrapolate_kinds": lambda: est.extrapolate(rows=columns_of_every_kind(2)),
        "extrapolate_points": lambda: est.extrapolate(rows=np.ones((2, 2))),
        "extrapolate_counts": lambda: est.extrapolate(rows=np.ones((2, 40))),
        "extrapolate_similar": lambda: est.extrapolate(rows=np.full((2, n), 0.5)),
        "extrapolate_cols": lambda: est.extrapolate(cols=np.ones((1, 1))),
        "extrapolate_count": lambda: est.extrapolate(cols=2),
        "repr": lambda: repr(model),
        "save": lambda: saved_again(model),
        "fit": lambda: method_of(again()).fit(X, y),
    }
    if hasattr(est, "observations_"):
        asked["fit_again"] = lambda: method_of(again()).fit(est.observations_)
    if hasattr(est, "predict_std"):
        asked["std"] = lambda: est.predict_std(pairs[:5])
    if hasattr(est, "fold_in"):
        asked |= {
            "explain": lambda: est.explain(0, 0),
            "suggest": lambda: est.suggest(2),
            "partial_fit": lambda: method_of(again()).partial_fit([[0, 0]], [1.0]),
            "forget": lambda: method_of(again()).forget([X[0]], *([] if is_dual(est) else [y[:1]])),
            "fold_in": lambda: est.fold_in(frame(1), [0], [1.0]),
            "fold_in_points": lambda: est.fold_in(np.ones((1, 2)), [0], [1.0]),
        }
    if hasattr(model, "predict_interval"):
        asked["interval"] = lambda: model.predict_interval([pairs[0]])
        asked["refit"] = lambda: again().fit(X, y)
    if hasattr(model, "filled"):
        asked |= {
            "filled": lambda: model.filled,
            "status": lambda: model.status,
            "best": lambda: model.best(1),
            "details": lambda: model.details(),
            "new_rows": lambda: model.extrapolate(rows=frame(2)),
        }
    return asked


def is_dual(est):
    return isinstance(est, kf.KKMCEX)


def saved_again(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "again.kf")
        kf.load(Path(folder) / "again.kf")


def use(model):
    """Ask a model for all that; only errors of kronfill may come."""
    for name, ask in asked_of(model).items():
        try:
            ask()
        except KronfillError:
            pass
        except Exception as error:
            error.add_note(f"when asked to {name}")
            raise


# Under limits.


class TooSlow(BaseException):
    """Raised by the alarm; nothing catches it on the way."""


def too_slow(*_):
    raise TooSlow


def limit_memory():
    """Limit the memory of this process to what it has, and some."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    used = next(int(line.split()[1]) for line in status.splitlines() if "VmData" in line) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + DATA, used + DATA))


def loaded(path):
    """Load a file, with no more memory than it may take."""
    tracemalloc.start()
    try:
        return kf.load(path)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        size = path.stat().st_size
        assert peak <= allowed(size), f"{peak} bytes of memory for a file of {size}"


def outcome(path):
    """What a file leads to: "refused", "works", or what went wrong."""
    signal.signal(signal.SIGALRM, too_slow)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    faulthandler.dump_traceback_later(3 * SECONDS, exit=True)  # compiled code hears no alarm
    try:
        model = loaded(path)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        use(model)
    except KronfillError:
        return "refused"
    except (Exception, TooSlow):
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
    return "works"


def tell(**line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(names, first, count):
    """Try forged files of these models."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    files = {name: bytes_of(name) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.kf"
        for data in files.values():  # what they need is imported and compiled
            path.write_bytes(data)
            use(kf.load(path))
        limit_memory()
        for name, data in files.items():
            for number in range(first, first + count):
                changed, way = forged(data, name, number)
                path.write_bytes(changed)
                tell(name=name, number=number, way=way)
                tell(outcome=outcome(path))


def run(names, first, count):
    """Try forged files of these models in another process; one line for each file."""
    command = [sys.executable, "-m", "tests.trying", ",".join(names), str(first), str(count)]
    single = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "NUMBA")}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent,
        env={**os.environ, **single},
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    files, outcomes = lines[::2], [line["outcome"] for line in lines[1::2]]
    if done.returncode:
        outcomes.append(f"the process ended with {done.returncode}: {done.stderr[-3000:]}")
    return [{**file, "outcome": came} for file, came in zip(files, outcomes, strict=False)]


def bad(lines):
    """The files that led to anything but an error of kronfill or a model that works."""
    return [line for line in lines if line["outcome"] not in ("refused", "works")]


if __name__ == "__main__":
    main(sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]))
