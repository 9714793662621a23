"""Certificates in model files: what was proved about a model when it was fitted."""

from __future__ import annotations

from typing import Any

from kronfill._stored import (
    count,
    flag,
    of,
    one_of,
    optional,
    positive,
    real,
    result,
    text,
    tuple_of,
    whole,
)
from kronfill.bounds import (
    Assumption,
    Bound,
    Certificate,
    NewItemsCertificate,
    SamplingTest,
    Sizes,
    Square,
)
from kronfill.io.records import Record

__all__ = ["CERTIFICATES"]


def _terms(value: Any) -> bool:
    return isinstance(value, dict) and all(text(k) and result(v) for k, v in value.items())


def _plain_terms(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "terms": dict(state["terms"])}


CERTIFICATES = (
    Record(Assumption, {"text": text, "holds": optional(flag)}),
    Record(
        Bound,
        {"name": text, "quantity": text, "value": result, "terms": _terms},
        forgotten=("assumptions", "errata", "corrected"),
        tidy=_plain_terms,
    ),
    Record(SamplingTest, {"p_value": real, "row_p": real, "col_p": real, "alpha": real}),
    Record(Sizes, {"m": count, "u": count}),
    Record(Square, {"scale": positive, "clip": optional(tuple_of(real, 2))}),
    Record(
        Certificate,
        {
            "delta": positive,
            "loss": of(Square),
            "value_range": tuple_of(real, 2),
            "sizes": of(Sizes),
            "train_loss": real,
            "sampling": of(SamplingTest),
            "assumptions": tuple_of(of(Assumption)),
            "candidates": tuple_of(of(Bound)),
            "reason": text,
            "variance": real,
            "holdout_loss": optional(real),
            "holdout_size": whole,
            "about": text,
        },
    ),
    Record(
        NewItemsCertificate,
        {
            "value": real,
            "estimate": real,
            "delta": positive,
            "axis": one_of("rows", "cols"),
            "held_out": count,
            "population": count,
            "variance": real,
            "loss": of(Square),
            "value_range": tuple_of(real, 2),
            "assumptions": tuple_of(of(Assumption)),
            "about": text,
        },
    ),
)
"""All that a certificate is made of, as ``complete`` makes it."""
