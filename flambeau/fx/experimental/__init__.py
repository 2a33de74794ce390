"""torch.fx.experimental: what traces of PyTorch's compiler are asked; there is none."""
