"""Shared basics: environment flags, the disk cache, NumPy's allocator and tracebacks."""
