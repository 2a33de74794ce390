"""torch.fx.passes: changes and analyses of graphs that libraries use."""
