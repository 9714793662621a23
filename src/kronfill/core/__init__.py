"""Numerical ground floor: the sampled-Kronecker operator, low-rank factors, threads and memory.

Arrays in, arrays out. Nothing here knows of ridge weights, kernels as objects, or estimators.
"""
