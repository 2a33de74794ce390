"""NumPy bodies of operators, run on symbolic arrays to obtain graph nodes."""
