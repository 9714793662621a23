"""A streamed fit stays within the memory it was given, which a hard limit enforces."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux"),
]
M, SIZE = 8_000_000, 20_000

FIT = """
import json
import resource
import sys
import time

import numpy as np

import kronfill as kf
from kronfill.streaming.streamed import resident_memory
from kronfill.core.threads import each

small, big, extra = sys.argv[1], sys.argv[2], int(sys.argv[3])


def status(name):
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def estimator(n):
    rng = np.random.default_rng(0)
    kernels = [kf.kernels.rbf(rng.random((n, 2)), length_scale=0.7) for _ in range(2)]
    for kernel in kernels:
        kernel.factor()
    return kf.KKMCEX(*kernels, mu=0.1, solver=kf.solvers.Streamed())


estimator(100).fit(small).predict([[0, 0]])  # loads what is loaded on first use


def warm(i):
    np.ones((300, 300)) @ np.ones((300, 300))
    time.sleep(0.01)


each(64, warm)  # threads and the buffers that BLAS keeps for each: they count, and stay
est = estimator(20_000)
limit = resident_memory() + extra
est.set_params(solver=kf.solvers.Streamed(memory=limit))
hard = status("VmData") + extra
resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
if len(sys.argv) > 4:  # what the limit is worth: all observations at once do not fit
    try:
        np.ones(3 * 8_000_000)
        found = "fits"
    except MemoryError:
        found = "refused"
    print(json.dumps({"array": found}))
else:
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")
    est.fit(big)
    print(json.dumps({"limit": limit, "peak": status("VmHWM"), "reason": est.solution_.reason}))
"""


def write(path, m, size):
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.arange(m, dtype=np.int64) * (size * size // m))
    rows, cols = np.divmod(codes, size)
    table = pa.table({"i": rows, "j": cols, "y": rng.standard_normal(m)})
    pq.write_table(table, path, row_group_size=200_000)


def run(*arguments):
    command = [sys.executable, "-c", FIT, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_peak_is_what_was_allowed(tmp_path):
    write(tmp_path / "small.parquet", 2000, 100)
    write(tmp_path / "big.parquet", M, SIZE)
    extra = 120 * 10**6
    # The observations alone, as indices and values, are larger than that.
    assert extra < 24 * M
    told = run(tmp_path / "small.parquet", tmp_path / "big.parquet", extra)
    assert told["peak"] <= told["limit"]
    batch = int(told["reason"].split()[-1])
    assert batch < M / 4
    assert run(tmp_path / "small.parquet", tmp_path / "big.parquet", extra, "array") == {
        "array": "refused"
    }
