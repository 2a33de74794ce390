"""Worker processes of a DataLoader: shared memory, messages, start and shutdown."""
