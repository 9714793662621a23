"""Hypothesis classes: balls of functions, with what a bound asks of them."""
