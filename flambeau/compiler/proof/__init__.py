"""Proof that the Python of a step may be skipped, by watching CPython run one call of it."""
