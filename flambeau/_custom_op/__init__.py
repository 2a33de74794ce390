"""torch._custom_op: the first interface for custom operators, which torch.library replaced."""

from . import autograd, impl

__all__ = ["autograd", "impl"]
