"""torch._higher_order_ops: operators on functions, which are graphs in exported programs."""

from ..tensor.absent import lacking

__all__: list[str] = []

_NAMES = ("associative_scan", "cond", "flex_attention", "scan", "while_loop")

__getattr__ = lacking(__name__, _NAMES)
