"""Hypothesis classes: balls of matrices, with what a bound needs of them; no theorem lives here."""
