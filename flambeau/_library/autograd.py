"""torch._library.autograd: Functions whose arguments and results are lists of tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree

__all__ = ["supports_tensorlist"]


@dataclasses.dataclass
class TensorListMetadata:
    """How the tensors of one call are arranged in its arguments and results."""

    input_spec: Any
    output_spec: Any = None
    result_is_tuple: bool = False


def supports_tensorlist(cls: Any) -> Any:
    """Change a Function so that lists of tensors among its arguments and results have gradients:
    `apply` passes their tensors in a row, and `forward` and `backward` see the lists again.

    >>> from flambeau._library.autograd import supports_tensorlist
    >>> @supports_tensorlist
    ... class Sum(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, xs):
    ...         ctx.length = len(xs)
    ...         return sum(xs)
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return [g] * ctx.length
    >>> xs = [torch.ones(1, requires_grad=True) for _ in range(2)]
    >>> Sum.apply(xs).backward(); xs[1].grad
    tensor([1.])
    """
    cls.forward, cls.backward = _pass_row(cls.forward), _pass_gradients(cls.backward)
    apply = cls.apply

    def apply_to_lists(*args: Any) -> Any:
        values, spec = pytree.tree_flatten(args, is_leaf=_is_no_tensor_list)
        metadata = TensorListMetadata(spec)
        row = apply(*values, metadata)
        result = pytree.tree_unflatten(list(row), metadata.output_spec)
        return result if metadata.result_is_tuple else result[0]

    cls.apply = staticmethod(apply_to_lists)
    return cls


def _pass_row(forward: Callable) -> Any:
    """Return a `forward` that takes the tensors of its lists in a row, and returns such a row."""

    def forward_of_row(ctx: Any, *row: Any) -> tuple:
        *values, metadata = row
        if not isinstance(metadata, TensorListMetadata):
            raise NotImplementedError(_create_text(
                "forward", "You should probably be calling .apply instead. Please file an issue if "
                "not."))
        result = forward(ctx, *pytree.tree_unflatten(values, metadata.input_spec))
        metadata.result_is_tuple = isinstance(result, tuple)
        leaves, metadata.output_spec = pytree.tree_flatten(
            result if metadata.result_is_tuple else (result,), is_leaf=_is_no_tensor_list)
        if hasattr(ctx, "_pt_metadata"):
            raise RuntimeError("Please don't set ctx._pt_metadata; PyTorch uses it to store info")
        ctx._pt_metadata = metadata
        return tuple(leaves)

    return staticmethod(forward_of_row)


def _pass_gradients(backward: Callable) -> Any:
    """Return a `backward` that takes the gradients of lists in a row, and returns such a row."""

    def backward_of_row(ctx: Any, *gradients: Any) -> tuple:
        if not hasattr(ctx, "_pt_metadata"):
            raise NotImplementedError(_create_text(
                "backward", "This will automatically get called by PyTorch autograd. Please file "
                "an issue if you need this."))
        metadata, needs = ctx._pt_metadata, ctx.needs_input_grad
        try:
            ctx.needs_input_grad = pytree.tree_unflatten(list(needs[:-1]), metadata.input_spec)
            result = backward(ctx, *pytree.tree_unflatten(list(gradients), metadata.output_spec))
        finally:
            ctx.needs_input_grad = needs
        leaves, spec = pytree.tree_flatten(
            result if isinstance(result, tuple) else (result,), is_leaf=_is_no_gradient_list)
        if spec != metadata.input_spec:
            raise RuntimeError(
                "Expected the return from backward to be of the same structure as the inputs. Got: "
                f"{spec} (return from backward), {metadata.input_spec} (inputs)")
        return (*leaves, None)

    return staticmethod(backward_of_row)


def _create_text(method: str, advice: str) -> str:
    return f"NYI: calling supports_tensorlist autograd.Function.{method} directly. {advice}"


def _is_no_tensor_list(value: Any) -> bool:
    """Return whether a value is neither a tuple nor a list of tensors only."""
    if isinstance(value, list):
        return any(not isinstance(v, Tensor) for v in value)
    return not isinstance(value, tuple)


def _is_no_gradient_list(value: Any) -> bool:
    """Return whether a value is neither a tuple nor a list of tensors and Nones only."""
    if isinstance(value, list):
        return any(v is not None and not isinstance(v, Tensor) for v in value)
    return not isinstance(value, tuple)
