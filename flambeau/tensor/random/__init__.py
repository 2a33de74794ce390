"""Random numbers equal to PyTorch's for the same seed: the generator and its distributions."""
