"""What the columns of a table of features hold, as numbers: known items and new ones alike.

Kernels that are made of them are one room up.
"""
