"""torch.fx.passes.infra: base classes for passes, pass managers and partitioners."""
