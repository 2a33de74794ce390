"""functorch.experimental.control_flow: torch.cond and map, at their older place."""

from ...._higher_order_ops.cond import cond
from ...._higher_order_ops.map import _stack_pytree, _unstack_pytree, map

__all__ = ["_stack_pytree", "_unstack_pytree", "cond", "map"]
