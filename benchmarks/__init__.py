"""Side-by-side measurements; run with ``make bench`` or ``python -m benchmarks NAME``."""
