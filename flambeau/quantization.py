"""torch.quantization: the older name of torch.ao.quantization."""

from .ao.quantization import *  # noqa: F403
from .ao.quantization import __all__, __getattr__  # noqa: F401

__all__ = [*__all__]  # noqa: PLE0604
