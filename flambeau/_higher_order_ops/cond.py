"""torch.cond: one of two functions, by a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops.registration.custom_operators import namespace
from ..tensor.symbolic_length import SymBool
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .active_export import active_recorder

__all__ = ["cond", "cond_op"]


class UnsupportedAliasMutationException(RuntimeError):
    """A branch that gives or writes one of its operands, in PyTorch; flambeau records both."""


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
         operands: tuple[Any, ...] | list[Any] = ()) -> Any:
    """What `true_fn(*operands)` gives if `pred`, else what `false_fn(*operands)` gives.

    In a program that torch.export exports both functions become graphs, and each call decides anew.
    RuntimeError for a `pred` that is no bool or one-element bool tensor, for operands that hold
    anything but tensors and numbers, and there for functions that give different things.

    >>> torch.cond(torch.tensor(False), lambda x: x + 1, lambda x: x - 1, (torch.ones(2),))
    tensor([0., 0.])
    """
    if not isinstance(pred, (bool, Tensor, SymBool)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(
            f"Expected pred to be bool or single-element tensor, but got {pred}."
        )
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not all(
        isinstance(x, (Tensor, int, float)) for x in pytree.tree_leaves(operands)
    ):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists "
            f"of tensor leaves, but got {operands}."
        )
    recorder = active_recorder()
    if recorder is not None and not isinstance(pred, bool):
        return recorder.choose(cond_op, pred, (true_fn, false_fn), tuple(operands))
    return true_fn(*operands) if pred else false_fn(*operands)


def cond_op(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
            operands: Any = ()) -> Any:
    """The operator of exported graphs: its functions are graphs that give a tuple."""
    return true_fn(*operands) if pred else false_fn(*operands)


cond_op.__name__ = "cond"
cond_op.__module__ = "torch.ops.higher_order"
setattr(namespace("higher_order"), "cond", cond_op)  # noqa: B010
