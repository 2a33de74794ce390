"""torch.fx.passes: graph transformations and analyses that libraries use."""
