"""torch._higher_order_ops.while_loop: importing its function works, using it does not."""

from ..tensor.absent import lacking

__getattr__ = lacking(__name__, ("while_loop",))
