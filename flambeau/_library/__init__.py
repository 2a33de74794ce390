"""torch._library: where PyTorch keeps what torch.library is made of."""

from . import infer_schema

__all__ = ["infer_schema"]
