"""torch.fx.passes.infra: passes and what runs them."""
