"""torch.fx.passes.dialect: passes for graphs of specific operator sets."""
