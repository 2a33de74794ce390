"""Read and write the JSON of PyTorch's `.pt2` files."""
