"""torch._functorch.einops: the module in which PyTorch defines torch.func.rearrange."""

from ..func.rearrange import rearrange

__all__ = ["rearrange"]
