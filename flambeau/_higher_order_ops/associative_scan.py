"""torch._higher_order_ops.associative_scan: importing its function works, using it does not."""

from ..tensor.absent import lacking

__getattr__ = lacking(__name__, ("associative_scan",))
