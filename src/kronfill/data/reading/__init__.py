"""Tables and matrices of every make, from memory and from files, read as labelled entries.

Nothing here knows of kernels: what describes an axis is read as numbers, labels and edges.
"""
