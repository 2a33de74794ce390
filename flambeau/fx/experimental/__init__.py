"""torch.fx.experimental: queries about traces of PyTorch's compiler; here no such trace exists."""
