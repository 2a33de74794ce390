"""Run the NumPy bodies of operators on symbolic arrays to obtain graph nodes."""
