"""torch._library: where PyTorch keeps what torch.library is made of."""

from . import autograd, infer_schema, simple_registry, utils

__all__ = ["autograd", "infer_schema", "simple_registry", "utils"]
