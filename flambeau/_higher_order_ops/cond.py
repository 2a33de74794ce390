"""torch.cond: call one of two functions, chosen by a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops.core.operator import PUBLIC
from ..ops.interception import batching
from ..ops.registration.custom_operators import get_namespace
from ..tensor.symbolic_length import SymBool
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .active_export import active_recorder, retracing_recorder

__all__ = ["cond", "cond_op"]


class UnsupportedAliasMutationException(RuntimeError):
    """PyTorch's error for a branch that returns or writes an operand. flambeau allows both."""


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
         operands: tuple[Any, ...] | list[Any] = ()) -> Any:
    """Return `true_fn(*operands)` if `pred`, else `false_fn(*operands)`.

    In programs exported by torch.export, both functions become graphs, and each call decides anew.
    Raises RuntimeError for a `pred` that is no bool or one-element tensor, for operands with leaves
    other than tensors and numbers, and in an export for branches whose results differ in structure.

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
    if isinstance(pred, Tensor) and batching.STATE.batches and batching.is_inside(pred):
        return _choose_elements(pred, true_fn(*operands), false_fn(*operands))
    return true_fn(*operands) if pred else false_fn(*operands)


def _choose_elements(pred: Tensor, first: Any, second: Any) -> Any:
    """The results of both functions, chosen for each example of a vmap."""
    where = PUBLIC["torch"]["where"]
    return pytree.tree_map(lambda a, b: where(pred, a, b), first, second)


def cond_op(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
            operands: Any = ()) -> Any:
    """torch.cond as an operator of exported graphs. The functions are graphs that return tuples."""
    recorder = retracing_recorder()
    if recorder is not None and not isinstance(pred, bool):  # a graph is traced again
        return recorder.choose(cond_op, pred, (true_fn, false_fn), tuple(operands))
    return true_fn(*operands) if pred else false_fn(*operands)


cond_op.__name__ = "cond"
cond_op.__module__ = "torch.ops.higher_order"
setattr(get_namespace("higher_order"), "cond", cond_op)  # noqa: B010
