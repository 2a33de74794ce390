"""torch._export: what programs import of torch.export's insides."""

from . import utils

__all__ = ["utils"]
