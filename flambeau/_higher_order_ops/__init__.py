"""torch._higher_order_ops: operators on functions, which are graphs in exported programs."""

from ..tensor.absent import make_absent_getattr
from .associative_scan import associative_scan
from .cond import cond
from .map import map
from .scan import scan
from .while_loop import while_loop
from .wrap import wrap_with_set_grad_enabled

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop",
           "wrap_with_set_grad_enabled"]

__getattr__ = make_absent_getattr(__name__, ("flex_attention",))
