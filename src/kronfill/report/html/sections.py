"""The sections of the page, from the numbers of a report."""

from __future__ import annotations

from html import escape
from typing import Any

from kronfill.estimators.gaussian_process.explain import CANCELS
from kronfill.report.html.charts import curve_chart
from kronfill.report.html.formats import Numbers
from kronfill.report.html.pictures import STATUS, palette
from kronfill.report.html.pieces import fact_table, section, table
from kronfill.report.html.viewer import picture
from kronfill.report.verdicts import Finding

__all__ = [
    "data_section",
    "entries_section",
    "environment_section",
    "guarantee_section",
    "method_section",
]

METHODS = {
    "AutoMC": "Each entry is predicted in up to three ways: from a few hidden factors of its row "
    "and column, from measured entries of rows and columns that resemble its own, and from both; "
    "the mix is the one that predicted hidden entries best.",
    "KKMCEX": "Each entry is predicted from all measured entries, each counting as much as its row "
    "and its column resemble those of the entry. This also works for rows and columns in which "
    "nothing was measured, if something is known about them.",
    "RRMCEX": "Each entry is predicted from the main patterns in which rows and columns resemble "
    "each other. This also works for rows and columns in which nothing was measured, if something "
    "is known about them.",
    "KMC": "Every row and every column is described by a few hidden factors, similar items by "
    "similar ones; an entry is the product of both.",
    "BayesianKMC": "Every row and every column is described by a few hidden factors, similar items "
    "by similar ones as far as the table bears that out; an entry is the product of both. How many "
    "factors, how similar, and how much noise is learned.",
    "IMC": "Every row and every column is described by a few hidden factors that are computed from "
    "its features; an entry is the product of both.",
    "MC": "Every row and every column is described by a few hidden factors, learned from the table "
    "alone; an entry is the product of both. A row or column in which nothing was measured gets "
    "the general level: nothing is known about it.",
}
METHODS["KKMCEXClassifier"] = METHODS["KKMCEXPoisson"] = METHODS["KKMCEX"]
LINKS = {
    "gaussian": "",
    "bernoulli": " Values are 0 and 1: a link, learned from entries that were hidden, makes of "
    "this the probability of 1.",
    "poisson": " Values are counts: a link, learned from entries that were hidden, makes of this "
    "the expected count.",
    "ordinal": " Values are ordered levels: a link, learned from entries that were hidden, makes "
    "of this the probability of each level, and the expected rating.",
}
CENTERS = {
    "none": "none",
    "mean": "the mean",
    "rows": "mean and row effects",
    "cols": "mean and column effects",
    "both": "mean, row and column effects",
}
UNCERTAIN = (
    "Entries that were not measured, widest interval first, one for each row. Measuring them would "
    "tell most about themselves."
)
SURPRISING = (
    "Measurements that are farthest from what the other measurements make one expect. Look whether "
    "they are errors."
)


def data_section(n: Numbers, verdict: Finding) -> str:
    """What went in and what was missing."""
    data = n.tree["data"]
    lines = [
        ("rows", n.show("data.rows", "i")),
        ("columns", n.show("data.columns", "i")),
        ("measured entries", n.show("data.observed", "i")),
        ("filled: row and column have measurements", n.show("data.filled", "i")),
        ("extrapolated: row or column without any", n.show("data.extrapolated", "i")),
        ("rows without a measurement", n.show("data.cold_rows", "i")),
        ("columns without a measurement", n.show("data.cold_columns", "i")),
        ("measurements per row: least, median, most", _three(n, "data.per_row", "i")),
        ("measurements per column: least, median, most", _three(n, "data.per_column", "i")),
        ("values: least, median, most", _three(n, "data.value", "g")),
        ("values: mean, standard deviation",
         f"{n.show('data.mean')} / {n.show('data.std')}"),
        ("known about rows", n.show("data.about_rows", "t")),
        ("known about columns", n.show("data.about_columns", "t")),
    ]  # fmt: skip
    spread = (
        "Numbers of measurements per row and column differ no more clearly than by chance"
        if data["even"]
        else "Measurements are spread over rows and columns less evenly (or more) than by chance: "
        "the accuracy below is for entries like the measured ones, others may be predicted worse"
    )
    blue = "blue is measured"
    if n.tree["cells"]["averaged"]:
        most = n.show("cells.observed_most", "%")
        blue = f"the stronger the blue, the more of a cell was measured (at most {most})"
    pattern = picture(
        n, "observed", palette((STATUS[0], STATUS[0])), "Where the table was measured",
        f"Where the table was measured: rows downwards, columns to the right; {blue}.",
    )  # fmt: skip
    weights = "<p>Measurements have weights; they count in the fit.</p>" if data["weighted"] else ""
    body = (
        f'<div class="grid"><div>{fact_table("What went in", lines)}</div>'
        f'<div class="pattern">{pattern}</div></div>'
        f'<p class="note">{spread} (p {n.show("data.sampling_p", "p")}).</p>{weights}'
    )
    return section("data", verdict, body)


def method_section(n: Numbers, verdict: Finding) -> str:
    """The method, its parameters, and the error along the ridge weight."""
    method = n.tree["method"]
    how = "chosen by the error on left-out entries" if method["mu_asked"] == "auto" else "given"
    names = {"rank": "hidden factors", "row_rank": "directions kept for rows",
             "col_rank": "directions kept for columns"}  # fmt: skip
    steps = "step" if method["iterations"] == 1 else "steps"
    lines = [
        ("method", n.show("method.name", "t")),
        (f"ridge weight mu ({how})", n.show("method.mu")),
        ("level taken out first", CENTERS[method["center"]]),
        *((names[key], n.show(f"method.ranks.{key}", "i")) for key in method["ranks"]),
        ("similarity of rows", n.show("method.row_kernel", "t")),
        ("similarity of columns", n.show("method.col_kernel", "t")),
        ("solver", f"{n.show('method.solver', 't')}, {n.show('method.iterations', 'i')} {steps}"),
        ("how it ended", n.show("method.status", "t")),
        ("error on the data it was fitted to (RMSE)", n.show("method.train_rmse")),
    ]
    if method["hidden_deviance"] is not None:
        lines.append(
            ("deviance of the entries hidden for the link", n.show("method.hidden_deviance"))
        )
    if method["signal_std"] is not None:
        lines += [
            ("size of the signal (standard deviation)", n.show("method.signal_std")),
            ("size of the noise (standard deviation)", n.show("method.noise_std")),
        ]
    body = (
        f"<p>{METHODS[method['name']]}{LINKS[method['likelihood']]}</p>"
        f'<div class="grid"><div>{fact_table("Method and parameters", lines)}</div>'
        f"<div>{_curve(n)}</div></div>{_sources(n)}"
    )
    return section("method", verdict, body)


def _sources(n: Numbers) -> str:
    """What each source is worth."""
    if not n.tree["sources"]:
        return ""
    about = {"rows": "rows", "cols": "columns", "both": "what the entries say about each other"}

    def loss(at: str, name: str, error: str) -> str:
        if n.get(f"{at}.{name}") is None:
            return "–"
        return f"{n.show(f'{at}.{name}')} ± {n.show(f'{at}.{error}')}"

    lines = []
    for k, one in enumerate(n.tree["sources"]):
        at = f"sources.{k}"
        losses = loss(at, "loss", "loss_error"), loss(at, "new_loss", "new_error")
        share = n.show(f"{at}.share", "%")
        lines.append((about[one["axis"]], n.show(f"{at}.label", "t"), share, *losses))
    head = ("about", "source", "share of the predicted variance",
            "error without it grows by", "for new rows or columns by")  # fmt: skip
    return (
        table("What each source is worth", head, lines, 3)
        + '<p class="note">Errors (RMSE) are those on hidden entries, and on hidden rows (columns '
        "for a source about columns), with their standard errors; nothing is chosen again when a "
        "source is left out.</p>"
    )


def _curve(n: Numbers) -> str:
    path = n.tree["path"]
    if path is None:
        return (
            '<p class="note">There is no curve of the error along the ridge weight: not for this '
            "method, or too few measurements can be left out.</p>"
        )
    title = {
        "loo": "Leave-one-out error: each measurement is predicted from the others",
        "cv": "Cross-validated error of held-out entries",
    }[path["criterion"]]
    chart = curve_chart(
        path["mus"], path["rmse"], path["margin"], (path["best_mu"], path["best_rmse"]),
        n.get("method.mu"), title,
    )  # fmt: skip
    sample = (
        f" Computed from a random sample of {n.show('path.observations', 'i')} measurements."
        if path["sampled"]
        else ""
    )
    return (
        f"<figure>{chart}<figcaption>{title}. A small mu follows the data closely, a large one "
        f"smooths. Dot: the least error, {n.show('path.best_rmse')} at mu = "
        f"{n.show('path.best_mu')}. Dashed: the mu that was used, {n.show('method.mu')}.{sample}"
        "</figcaption></figure>"
    )


def entries_section(n: Numbers, verdict: Finding) -> str:
    """Why the most uncertain and the most surprising entries are predicted as they are."""
    blocks = []
    for key, title, text in (
        ("uncertain", "Most uncertain", UNCERTAIN),
        ("surprising", "Most surprising", SURPRISING),
    ):
        cards = [_card(n, f"{key}.{k}", entry) for k, entry in enumerate(n.tree[key])]
        found = f'<div class="cards">{"".join(cards)}</div>' if cards else "<p>There are none.</p>"
        blocks.append(f"<h3>{title}</h3><p>{text}</p>{found}")
    how = (
        '<p class="note">The tables take each prediction apart: its parts add up to it. A '
        "measurement that is lower than its neighbours make one expect pulls down what resembles "
        "it, so that parts may be negative.</p>"
        if any(
            entry["parts"] and entry["explained"]
            for key in ("uncertain", "surprising")
            for entry in n.tree[key]
        )
        else ""
    )
    return section("entries", verdict, how + "".join(blocks))


def _card(n: Numbers, at: str, entry: dict[str, Any]) -> str:
    interval = (
        ""
        if entry["lower"] is None
        else f", interval {n.show(f'{at}.lower')} to {n.show(f'{at}.upper')}"
    )
    text = f"Predicted {n.show(f'{at}.predicted')}{interval} ({entry['status']})."
    if entry["observed"] is not None:
        text = (
            f"Measured {n.show(f'{at}.observed')}; predicted {n.show(f'{at}.left_out')} while it "
            f"was hidden, {n.show(f'{at}.predicted')} now that it counts."
        )
    head = f"<h3>{n.show(f'{at}.row', 't')} × {n.show(f'{at}.column', 't')}</h3><p>{text}</p>"
    if not entry["explained"]:
        return f'<article class="card">{head}</article>'
    lines = [("general level", "", "", n.show(f"{at}.base"))]
    for key, name in (("row_effect", "its row"), ("column_effect", "its column")):
        if entry[key]:
            lines.append((name, "", "", n.show(f"{at}.{key}")))
    for k, _ in enumerate(entry["parts"]):
        part = f"{at}.parts.{k}"
        where = f"{n.show(f'{part}.row', 't')} × {n.show(f'{part}.column', 't')}"
        lines.append(
            (where, n.show(f"{part}.value"), n.show(f"{part}.similarity"),
             n.show(f"{part}.contribution"))
        )  # fmt: skip
    rest = "all other measurements" if entry["parts"] else "what its row and column share"
    lines.append((rest, "", "", n.show(f"{at}.rest")))
    names = ("comes from", "measured", "similarity", "adds")
    origin = table("Where the prediction comes from", names, lines, numbers=3)
    warning = ""
    if (entry["cancellation"] or 0.0) > CANCELS:
        warning = (
            '<p class="note">These parts cancel: without their signs they add up to '
            f"{n.show(f'{at}.cancellation')} times what there is to explain, so that none of them "
            "tells where the prediction comes from.</p>"
        )
    return f'<article class="card">{head}{origin}{warning}</article>'


def guarantee_section(n: Numbers, verdict: Finding) -> str:
    """The certificate, or what it needs."""
    found = n.tree["guarantee"]
    if found is None:
        body = (
            "<p>A certificate bounds the error on the entries that were not measured, whatever "
            "they are, without trusting the model. It needs the range that all values are known to "
            "obey, from what the numbers mean (a share lies between 0 and 1), not from the data. "
            "Give it to get one:</p>"
            '<pre tabindex="0"><code>completion.report("report.html", value_range=(low, high))'
            "</code></pre>"
        )
        return section("certificate", verdict, body)
    lines = [
        ("range that all values obey",
         f"{n.show('guarantee.low')} to {n.show('guarantee.high')}"),
        ("probability that the statement fails", n.show("guarantee.delta", "%")),
        ("bound on the mean square error", n.show("guarantee.value")),
        ("bound on its root (RMSE)", n.show("guarantee.rmse")),
        ("variance of the measured values", n.show("guarantee.variance")),
        ("mean square error on entries set aside", n.show("guarantee.holdout_loss")),
        ("what theorems about the class of models give", n.show("guarantee.class_value")),
        ("mean square error on the measured entries", n.show("guarantee.train_loss")),
        *((f"part: {escape(name)}", n.show(f"guarantee.terms.{name}")) for name in found["terms"]),
    ]  # fmt: skip
    assumed = [
        (n.show(f"guarantee.assumptions.{k}.0", "t"), n.show(f"guarantee.assumptions.{k}.1", "t"))
        for k, _ in enumerate(found["assumptions"])
    ]
    new = ""
    if found["new_sentence"] is not None:
        new = f"<p>{n.show('guarantee.new_sentence', 't')}</p>"
    body = (
        f"<p>{n.show('guarantee.sentence', 't')}</p>{new}{fact_table('The bound', lines)}"
        f"{table('What it assumes', ('assumption', 'here'), assumed)}"
    )
    return section("certificate", verdict, body)


def environment_section(n: Numbers) -> str:
    """Versions of what ran."""
    lines = [(escape(name), n.show(f"environment.{name}", "t")) for name in n.tree["environment"]]
    return section("environment", None, fact_table("What ran", lines))


def _three(n: Numbers, at: str, form: str) -> str:
    return " / ".join(n.show(f"{at}.{name}", form) for name in ("least", "median", "most"))
