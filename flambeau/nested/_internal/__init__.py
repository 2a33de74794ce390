"""Where PyTorch has the class of tensors in jagged layout."""
