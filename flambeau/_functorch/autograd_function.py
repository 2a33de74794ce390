"""torch._functorch.autograd_function: contexts with other saved tensors, and gradients of batches
reduced to their inputs, for libraries that write transforms of custom functions themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..func.vmap import vmap
from ..ops.interception.batched_functions import VmapInfo
from ..tensor.tensor import Tensor

__all__ = ["CtxWithSavedTensors", "VmapInfo", "WrappedCtx", "reductify", "reductify_leaf"]


class WrappedCtx:
    """A context that reads and writes another one's attributes; its own are set past it."""

    _pt_reserved_attrs: tuple[str, ...] = ("_pt_reserved_attrs", "_pt_inner_ctx")

    def __init__(self, ctx: Any) -> None:
        names = self._pt_reserved_attrs
        if not isinstance(ctx, WrappedCtx) and any(hasattr(ctx, name) for name in names):
            raise RuntimeError(
                f"PyTorch reserves the {names} field on ctx. Please name your fields on ctx "
                "something else to avoid name collision.")
        vars(self)["_pt_inner_ctx"] = ctx

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_pt_inner_ctx"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            super().__setattr__(name, value)
        else:
            setattr(vars(self)["_pt_inner_ctx"], name, value)


class CtxWithSavedTensors(WrappedCtx):
    """A context with other tensors as its `saved_tensors`."""

    _pt_reserved_attrs = ("_pt_new_saved_tensors", *WrappedCtx._pt_reserved_attrs)

    def __init__(self, ctx: Any, new_saved_tensors: Sequence[Tensor]) -> None:
        super().__init__(ctx)
        vars(self)["_pt_new_saved_tensors"] = new_saved_tensors

    @property
    def saved_tensors(self) -> Sequence[Tensor]:
        """The tensors that replace the other context's."""
        tensors: Sequence[Tensor] = vars(self)["_pt_new_saved_tensors"]
        return tensors


def reductify(
    grad_input: Any, grad_input_bdim: Any, input_bdim: Any, batch_size: int,
    target_shape_without_bdim_to_reduce_to: Any = None,
) -> tuple[Any, ...]:
    """Return `reductify_leaf` of each gradient, which may be a tuple or a tensor."""
    gradients, axes, input_axes = (
        value if isinstance(value, tuple) else (value,)
        for value in (grad_input, grad_input_bdim, input_bdim))
    shapes = target_shape_without_bdim_to_reduce_to or len(gradients) * (None,)
    return tuple(reductify_leaf(g, axis, input_axis, batch_size, shape) for
                 g, axis, input_axis, shape in zip(gradients, axes, input_axes, shapes,
                                                   strict=True))


def reductify_leaf(
    grad_input: Tensor | None, grad_input_bdim: int | None, input_bdim: int | None,
    batch_size: int, target_shape_without_bdim_to_reduce_to: Any = None,
) -> Tensor | None:
    """Return a gradient with the batch axis of its input: summed over the batch if the input has
    none, repeated if the gradient has none. With a shape, each example is summed to it.

    >>> from flambeau._functorch.autograd_function import reductify_leaf
    >>> reductify_leaf(torch.ones(2, 3), 0, None, 2)
    tensor([2., 2., 2.])
    """
    if grad_input is None:
        return None
    if input_bdim is None:
        return grad_input if grad_input_bdim is None else grad_input.sum(grad_input_bdim)
    examples = grad_input.expand(batch_size, *grad_input.shape) if grad_input_bdim is None \
        else grad_input.movedim(grad_input_bdim, 0)
    if target_shape_without_bdim_to_reduce_to is not None:
        examples = vmap(Tensor.sum_to_size, (0, None))(
            examples, target_shape_without_bdim_to_reduce_to)
    return examples.movedim(0, input_bdim)
