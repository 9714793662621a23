"""KKMCEX at N = L = 3100, m = 1000 with given kernels, against the two dense products alone.

``fit`` includes the checks of both kernels (symmetry, positive semidefiniteness). The products are
K_w D and (K_w D) K_h with a dense D. Best of five; memory is the peak beyond the input.
"""

from __future__ import annotations

import json
import timeit
import tracemalloc

import numpy as np


def measure(size: int = 3100, m: int = 1000) -> dict:
    import kronfill as kf

    data = kf.datasets.make_paper_matrix(size, snr=4, m=m, random_state=0)
    kernel, other = np.array(data.row_kernel), np.array(data.row_kernel)
    rows, cols = data.observations.rows, data.observations.cols
    X, y = data.observations.X, data.observations.values
    d = np.zeros((size, size))
    d[rows, cols] = y

    def ours():
        return kf.KKMCEX(kernel, other, mu=0.1).fit(X, y).predict_matrix()

    def products():
        return (kernel @ d) @ other

    ours()
    fast, slow = (min(timeit.repeat(job, repeat=5, number=1)) for job in (ours, products))
    tracemalloc.start()
    ours()
    peak = tracemalloc.get_traced_memory()[1]
    return {
        "problem": f"N = L = {size}, m = {m}",
        "fit_and_predict_matrix_s": fast,
        "two_dense_products_s": slow,
        "ratio": fast / slow,
        "peak_in_kernels": peak / kernel.nbytes,
    }


def main() -> None:
    from benchmarks import peers

    results = measure()
    peers.keep("closed_form", results)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
