"""Plain words for methods and settings."""

from __future__ import annotations

__all__ = ["CENTERS", "METHODS", "SCHEMES", "SURPRISING", "UNCERTAIN"]

METHODS = {
    "KKMCEX": "Each entry is predicted from all measured entries, each counting as much as its row "
    "and its column resemble those of the entry. This also works for rows and columns in which "
    "nothing was measured, if something is known about them.",
    "RRMCEX": "Each entry is predicted from the main patterns in which rows and columns resemble "
    "each other. This also works for rows and columns in which nothing was measured, if something "
    "is known about them.",
    "KMC": "Every row and every column is described by a few hidden factors, similar items by "
    "similar ones; an entry is the product of both.",
    "IMC": "Every row and every column is described by a few hidden factors that are computed from "
    "its features; an entry is the product of both.",
    "MC": "Every row and every column is described by a few hidden factors, learned from the table "
    "alone; an entry is the product of both. A row or column in which nothing was measured gets "
    "the general level: nothing is known about it.",
}
CENTERS = {
    "none": "none",
    "mean": "the mean",
    "rows": "mean and row effects",
    "cols": "mean and column effects",
    "both": "mean, row and column effects",
}
SCHEMES = {
    "folds": "Measured by cross-validation: {folds} times a part of the entries (then of the rows, "
    "then of the columns) was hidden, the method fitted to the rest with the same ridge weight, "
    "and the hidden part predicted (seed {seed}). RMSE is the typical error, MAE the mean absolute "
    "error, both in the units of the table; R² is the share of the variation that is explained.",
    "hold-out": "Measured once: a tenth of the rows, of the columns and of the other entries was "
    "hidden, the method fitted to the rest with the same ridge weight, and the hidden part "
    "predicted (seed {seed}). RMSE is the typical error, MAE the mean absolute error, both in the "
    "units of the table; R² is the share of the variation that is explained.",
}
UNCERTAIN = (
    "Entries that were not measured, widest interval first, one for each row. Measuring them would "
    "tell most about themselves."
)
SURPRISING = (
    "Measurements that are farthest from what the other measurements make one expect. Look whether "
    "they are errors."
)
