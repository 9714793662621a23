"""Compiled loops over the observations, the same bits for any number of threads.

What calls them, and why, is in the rooms above.
"""
