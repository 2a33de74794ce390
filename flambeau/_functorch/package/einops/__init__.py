"""functorch.einops: `rearrange`, an older name of torch.func.rearrange."""

from ....func.rearrange import rearrange

__all__ = ["rearrange"]
