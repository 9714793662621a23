"""The tables of ``docs/speed.md``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks.goals import WORK, pick

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
PEERS = {
    "scipy": "SciPy Cholesky",
    "scikit-learn": "scikit-learn KernelRidge",
    "LatentKroneckerGP 15": "LatentKroneckerGP, defaults",
    "LatentKroneckerGP 100": "LatentKroneckerGP, tuned",
}
KINDS = {
    "tanimoto": "Tanimoto, 1024 bits",
    "given": "given matrix (exponential)",
    "graph": "regularised Laplacian of a graph",
}


def write(results: dict, page: Path) -> None:
    """Put the tables between the markers of the page, or make a page of them."""
    before, after = "# Speed\n\n", "\n"
    if page.exists():
        text = page.read_text()
        before, after = text[: text.index(BEGIN)], text[text.index(END) + len(END) :]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f"{before}{BEGIN}\n\n{tables(results)}\n{END}{after}")


def tables(results: dict) -> str:
    """Everything measured, as Markdown."""
    parts = [
        _machine(results), _goals(results), _side_by_side(results), _sizes(results),
        _full_rank(results), _choice(results), _cold(results), _others(results),
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)


def _table(title: str, head: Iterable[str], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    lines = [head, ["---"] * len(list(head)), *rows]
    return f"### {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def number(value: float | None, unit: str = "") -> str:
    if value is None:
        return "not measured"
    text = f"{value:.1e}" if 0 < abs(value) < 1e-4 else f"{value:,.3g}"
    text = f"{value:,.0f}" if abs(value) >= 1000 else text
    return f"{text} {unit}".strip() if unit != "x" else f"{text}x"


def _seconds(row: dict | None, residual: bool = False) -> str:
    if row is None:
        return ""
    if "seconds" not in row:
        return _short(row.get("failed", "not measured"))
    text = number(row["seconds"], "s")
    return f"{text} ({row['true_residual']:.0e})" if residual else text


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def _machine(results: dict) -> str:
    on = results["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in on["versions"].items())
    found = {r["library"]: r["version"] for r in results["measured"] if "version" in r}
    theirs = "; ".join(f"{PEERS[name]}: {number}" for name, number in sorted(found.items()))
    return (
        f"{on['date']}, {on['processor']}, {on['cores']} cores, {on['memory_gb']} GB, "
        f"{on['system']}, Python {on['python']}; {versions}. "
        + (f"Peers: {theirs}. " if theirs else "")
        + (
            f"The whole run took {results['minutes']:.0f} minutes.\n"
            if "minutes" in results
            else "The run was ended half-way.\n"
        )
    )


def _goals(results: dict) -> str:
    said = {True: "yes", False: "**no**", None: ""}
    signs = {"<=": "at most", ">=": "at least"}
    rows = [
        [
            goal["what"],
            f"{signs[goal['sign']]} {number(goal['bound'], goal['unit'])}",
            number(goal["value"], goal["unit"]),
            said[goal["met"]],
        ]
        for goal in results["goals"]
    ]
    return _table("Goals", ("what", "goal", "measured", "met"), rows)


def _side_by_side(results: dict) -> str:
    ran = [name for name in PEERS if any(r["library"] == name for r in results["measured"])]
    rows = []
    for ours in results["measured"]:
        problem = {name: ours[name] for name in ("m", "size")}
        theirs = [pick(results, name, **problem) for name in ran]
        if ours["library"] != "kronfill" or ours != pick(results, "kronfill", **problem):
            continue
        if any(theirs):
            cells = [_seconds(row, residual=True) for row in (ours, *theirs)]
            rows.append([f"{ours['m']:,}", f"{ours['size']:,}", *cells])
    head = ("m", "N = L", "kronfill", *(PEERS[name] for name in ran))
    return _table("Side by side: seconds (relative residual, exact kernels)", head, rows)


def _sizes(results: dict) -> str:
    rows = []
    for row in results["measured"]:
        if row["library"] != "kronfill" or row["kind"] != "rbf":
            continue
        extra = (" + 0.1 I" if row["identity"] else "") + (", Zipf" if row["zipf"] else "")
        scales = " x ".join(f"{s:g}" for s in row["scales"])
        if "seconds" not in row:
            rows.append([f"{row['m']:,}", f"{row['size']:,}", scales + extra, "", _seconds(row)])
            continue
        rows.append([
            f"{row['m']:,}", f"{row['size']:,}", scales + extra,
            " x ".join(str(r) for r in row.get("ranks", [])), number(row["seconds"]),
            *(number(row[name]) if name in row else "" for name in WORK), row["solver"],
            str(row["iterations"]), f"{row['true_residual']:.0e}",
            f"{row['beyond_input_gb']:.2f}", f"{row['peak_gb']:.2f}",
        ])  # fmt: skip
    head = (
        "m", "N = L", "length scales", "ranks", "fit, s", "factors: made, s", "turned, s",
        "multiplied, s", "read from memory, s", "solver",
        "iterations", "residual", "GB beyond input", "GB in all",
    )  # fmt: skip
    return _table("kronfill alone", head, rows)


def _full_rank(results: dict) -> str:
    rows = [
        [
            KINDS[row["kind"]], f"{row['m']:,}", f"{row['size']:,}", _seconds(row),
            row.get("solver", ""), str(row.get("iterations", "")),
            f"{row['true_residual']:.0e}" if "true_residual" in row else "",
        ]
        for row in results["measured"]
        if row["kind"] in KINDS
    ]  # fmt: skip
    head = ("kernel of both axes", "m", "N = L", "fit", "solver", "iterations", "residual")
    return _table("Kernels of full rank", head, rows)


def _choice(results: dict) -> str:
    names = ["Cholesky", "PrimalDirect", "GridEigen", "PCG", "DualPCG"]
    tried = {name for row in results["choice"] for name in row.get("seconds", {})}
    names = [name for name in names if name in tried]
    rows = []
    for row in results["choice"]:
        what = [f"{row['m']:,}", f"{row['size']:,}"]
        what.append(" x ".join(str(r) for r in row.get("ranks", [])))
        if "seconds" not in row:
            rows.append([*what, _short(row["failed"])])
            continue
        cells = [_solver_cell(row, name) for name in names]
        ratio = f"{row['auto_over_best']:.2f}" if "auto_over_best" in row else ""
        rows.append([*what, number(row["seconds"].get("auto")), row["taken"], *cells, ratio])
    head = ("m", "N = L", "ranks", "'auto'", "which took", *names, "'auto' / best")
    return _table("The choice of solver='auto': seconds", head, rows)


def _solver_cell(row: dict, name: str) -> str:
    if name in row["seconds"]:
        return number(row["seconds"][name])
    return "says no" if name in row["failed"] else ""


def _cold(results: dict) -> str:
    rows = [
        [f"{r['m']:,}", r.get("solver", ""), r["cache"]]
        + [number(r.get(name)) for name in ("imports_s", "first_fit_s", "later_fit_s")]
        for r in results["cold"]
    ]
    head = ("m", "solver", "cache of compiled code", "imports, s", "first fit, s", "later fits, s")
    return _table("Cold start of a process", head, rows)


def _others(results: dict) -> str:
    parts = []
    closed = results.get("closed_form", {})
    if "ratio" in closed:
        parts.append(
            f"### Given kernels, few observations\n\n{closed['problem']}: `fit` (the checks of "
            f"both kernels included) and `predict_matrix` {closed['fit_and_predict_matrix_s']:.2f} "
            f"s; the two dense products alone {closed['two_dense_products_s']:.2f} s; peak "
            f"{closed['peak_in_kernels']:.1f} kernels beyond the input.\n"
        )
    als = results.get("mc_als", {})
    rows = []
    for dtype in ("float64", "float32"):
        for name, row in als.get(dtype, {}).items():
            if "failed" in row:
                rows.append([dtype, name, _short(row["failed"]), "", "", ""])
                continue
            version = row.get("version", "")
            rows.append([
                dtype, f"{name} {version}".strip(), number(row["seconds_per_sweep"]),
                f"{row['train_rmse']:.4f}", number(row.get("target_s")),
                str(row.get("target_sweeps", "not reached")),
            ])  # fmt: skip
    head = ("precision", "library", "s per sweep", "training RMSE", "s to equal RMSE", "sweeps")
    parts.append(_table(f"MC by alternating least squares, {als.get('problem', '')}", head, rows))
    return "\n".join(part for part in parts if part)
