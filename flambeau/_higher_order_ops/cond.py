"""torch._higher_order_ops.cond: importing its function works, using it does not."""

from ..tensor.absent import lacking

__getattr__ = lacking(__name__, ("cond",))
