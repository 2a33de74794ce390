"""What every layer stands on: environment flags, the disk cache and NumPy's allocator."""
