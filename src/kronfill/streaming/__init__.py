"""Tables that are not held in memory: read piece by piece, sorted once, then fitted in passes.

On disk or on a Dask cluster. No other fit keeps journals, locks folders or talks to a cluster; the
cells of the paper's experiment have a store and a cluster of their own.
"""
