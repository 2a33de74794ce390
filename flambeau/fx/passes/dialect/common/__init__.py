"""torch.fx.passes.dialect.common: passes for any operators."""
