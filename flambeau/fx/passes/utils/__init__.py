"""torch.fx.passes.utils: matching and cutting graphs."""
