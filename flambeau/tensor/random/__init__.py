"""PyTorch's random numbers for the same seed: the generator and its distributions."""
