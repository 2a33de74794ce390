"""torch.fx.passes.dialect.common: passes that work for any operators."""
