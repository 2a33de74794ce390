"""torch._export: what programs import of torch.export's insides."""

from . import utils, wrappers

__all__ = ["utils", "wrappers"]
