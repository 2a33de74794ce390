"""PyTorch's `.pt2` files: their JSON, read and written."""
