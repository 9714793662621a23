"""Tables that are not held in memory: read piece by piece, sorted once, then fitted in passes.

On disk or on a Dask cluster; the only room that locks files, keeps journals or talks to a cluster.
"""
