"""torch.distributed.nn: collectives that gradients go through, with groups of one process."""

from __future__ import annotations

import sys
from typing import Any

from ..tensor import Tensor
from . import collectives
from .collectives import ReduceOp

__all__ = ["all_gather", "all_reduce", "broadcast", "reduce"]

functional = sys.modules[__name__ + ".functional"] = sys.modules[__name__]


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """What the processes' tensors make together: with one of them, a copy of its own."""
    made = tensor.clone()
    collectives.all_reduce(made.detach(), op, group)
    return made


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The processes' tensors: with one of them, a copy of its own."""
    collectives.all_gather([tensor.detach().clone()], tensor.detach(), group)
    return (tensor.clone(),)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of process `src`."""
    made = tensor.clone()
    collectives.broadcast(made.detach(), src, group)
    return made


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """What the processes' tensors make together, on process `dst`."""
    made = tensor.clone()
    collectives.reduce(made.detach(), dst, op, group)
    return made
