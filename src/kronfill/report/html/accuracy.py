"""How accurate predictions are: scores, and a picture of what was said against what was."""

from __future__ import annotations

from typing import Any

from kronfill.report.html.charts import calibration_chart, scatter_chart
from kronfill.report.html.formats import Numbers
from kronfill.report.html.pieces import fact_table, scrolling, section
from kronfill.report.verdicts import WHAT, Finding, part_verdict

__all__ = ["accuracy_section"]

SCHEMES = {
    "folds": "Measured by cross-validation: {folds} times a part of the entries (then of the rows, "
    "then of the columns) was hidden, the method fitted to the rest with the same ridge weight, "
    "and the hidden part predicted (seed {seed}).",
    "hold-out": "Measured once: a tenth of the rows, of the columns and of the other entries was "
    "hidden, the method fitted to the rest with the same ridge weight, and the hidden part "
    "predicted (seed {seed}).",
}
NUMBERS = (
    " RMSE is the typical error, MAE the mean absolute error, both in the units of the table; R² "
    "is the share of the variation that is explained."
)
LIKELY = {
    "gaussian": "",
    "bernoulli": " Predictions are probabilities of 1. The deviance is twice the mean negative log "
    "likelihood; AUC is the share of pairs of a 1 and a 0 that are in the right order, AP the "
    "average precision.",
    "poisson": " Predictions are expected counts. The deviance says how unlikely the counts were "
    "made: 1 is what chance alone leaves.",
    "ordinal": " Predictions are expected ratings. The deviance is twice the mean negative log "
    "likelihood of the ratings.",
}
COLUMNS = {
    "gaussian": (("rmse", "RMSE", "g"), ("mae", "MAE", "g"), ("r2", "R²", "r")),
    "bernoulli": (
        ("deviance", "deviance", "g"), ("auc", "AUC", "g"), ("average_precision", "AP", "g"),
    ),
    "poisson": (("deviance", "deviance", "g"), ("rmse", "RMSE", "g"), ("mae", "MAE", "g")),
    "ordinal": (("deviance", "deviance", "g"), ("rmse", "RMSE", "g"), ("mae", "MAE", "g")),
}  # fmt: skip
AXES = {
    "bernoulli": ("probability that was said", "share that was 1"),
    "poisson": ("expected count", "mean count"),
    "ordinal": ("expected rating", "mean rating"),
}


def accuracy_section(n: Numbers, verdict: Finding) -> str:
    """Accuracy by cross-validation, for known and for new rows and columns."""
    found = n.tree["accuracy"]
    if not found["parts"]:
        body = (
            "<p>There are too few measurements to hide some and predict them from the others. "
            "How good the predictions are is not known.</p>"
        )
        return section("accuracy", verdict, body)
    likelihood = n.tree["method"]["likelihood"]
    scheme = SCHEMES[found["scheme"]].format(
        folds=n.show("accuracy.folds", "i"), seed=n.show("accuracy.seed", "i")
    )
    scheme += LIKELY[likelihood] + ("" if likelihood == "bernoulli" else NUMBERS)
    parts = [_part(n, k, part) for k, part in enumerate(found["parts"])]
    body = f'<p class="note">{scheme}</p><div class="cards">{"".join(parts)}</div>'
    body += _ranking(n) if found["ranking"] else ""
    return section("accuracy", verdict, body)


def _part(n: Numbers, k: int, part: dict[str, Any]) -> str:
    at = f"accuracy.parts.{k}"
    names = (("method", n.show("method.name", "t")), ("mean", "mean of all values"),
             ("effects", "row and column averages"))  # fmt: skip
    columns = COLUMNS[n.tree["method"]["likelihood"]]
    rows = "".join(
        f'<tr{" class=own" if key == "method" else ""}><th scope="row">{name}</th>'
        + "".join(f'<td class="num">{n.show(f"{at}.{key}.{what}", form)}</td>'
                  for what, _, form in columns)
        + "</tr>"
        for key, name in names
    )  # fmt: skip
    head = '<tr><th scope="col">predicted by</th>' + "".join(
        f'<th scope="col" class="num">{name}</th>' for _, name, _ in columns
    )
    scores = scrolling(
        f"<table><caption>{n.show(f'{at}.count', 'i')} hidden entries</caption>"
        f"<thead>{head}</tr></thead><tbody>{rows}</tbody></table>",
        f"Accuracy: {WHAT[part['kind']]}",
    )
    chart, caption = _picture(n, part)
    word = part_verdict(n, k)
    return (
        f'<article class="card"><h3>{WHAT[part["kind"]].capitalize()}</h3>'
        f'<p class="lead {word.tone}">{word.text}</p>{scores}'
        f"<figure>{chart}<figcaption>{caption}</figcaption></figure></article>"
    )


def _picture(n: Numbers, part: dict[str, Any]) -> tuple[str, str]:
    """Each entry as a point or, of what is not a number, how often what was said was so."""
    what = WHAT[part["kind"]]
    likelihood = n.tree["method"]["likelihood"]
    if likelihood == "gaussian":
        chart = scatter_chart(
            part["observed"], part["predicted"], f"Predicted against observed: {what}"
        )
        return chart, "Predicted while hidden, against observed; on the dashed line both agree."
    groups = [(one["said"], one["seen"], one["margin"] or 0.0) for one in part["calibration"]]
    ends = (0.0, 1.0) if likelihood == "bernoulli" else ()
    chart = calibration_chart(groups, f"Calibration: {what}", AXES[likelihood], ends)
    return chart, (
        f"Hidden entries in groups of similar predictions: {AXES[likelihood][0]}, against "
        f"{AXES[likelihood][1]}. On the dashed line both agree; lines show two standard errors."
    )


def _ranking(n: Numbers) -> str:
    """How high hidden ones are ranked."""
    k = n.show("accuracy.ranking.k", "i")
    lines = [
        (f"recall: share of the ones among the first {k}", n.show("accuracy.ranking.recall")),
        (f"NDCG of the first {k}", n.show("accuracy.ranking.ndcg")),
        ("AUC: share of pairs in the right order", n.show("accuracy.ranking.auc")),
        ("average precision", n.show("accuracy.ranking.average_precision")),
        ("rows with a hidden one", n.show("accuracy.ranking.rows", "i")),
    ]
    table = fact_table("Means over rows", lines)
    return f"<h3>Hidden ones of each row among its columns without a one</h3>{table}"
