"""Cells of the experiment: which there are, who works on them, where they are kept.

Here, in several processes or on a Dask cluster; what was done is never done again.
"""
