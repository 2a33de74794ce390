"""Gradients of each example of a batch: `torch.nn.utils._per_sample_grad`.

The module runs under vmap, on batches of one example, with a copy of its parameters per example
(views that share their memory). So all modules work whose operators vmap knows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..nn.module import Module
from ..tensor import Tensor
from ..tensor.tree import get_leaves, map_leaves
from .functional_call import functional_call
from .vmap import vmap

__all__ = ["call_for_per_sample_grads"]


def call_for_per_sample_grads(
    module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum",
    batch_first: bool = True,
) -> Callable:
    """Return the module as a function; backward writes `grad_sample` of its parameters.

    `grad_sample` has an axis for the examples before those of the parameter, whose `grad` stays as
    it is. `loss_reduction`: how the loss reduces the batch; for "mean" the gradients are multiplied
    by the batch size. The batch axis is the first one, or the second without `batch_first`;
    `batch_size` is needed if tensors among the arguments differ in it, and those without it are
    passed whole. Raise RuntimeError for other arguments, and if a parameter has a `grad_sample`.

    >>> layer = nn.Linear(4, 3)
    >>> y = torch.nn.utils._per_sample_grad.call_for_per_sample_grads(layer)(torch.randn(5, 4))
    >>> y.sum().backward()
    >>> layer.weight.grad_sample.shape
    torch.Size([5, 3, 4])
    """
    _check_arguments(module, batch_size, loss_reduction)
    axis = 0 if batch_first else 1

    @functools.wraps(module.forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        size = batch_size or _find_batch_size(args, kwargs, axis)
        scale = size if loss_reduction == "mean" else 1
        copies = {
            name: _copy_per_example(parameter, size, scale)
            for name, parameter in module.named_parameters() if parameter.requires_grad
        }
        dims = map_leaves(
            lambda x: axis if isinstance(x, Tensor) and x.dim() > axis and x.size(axis) == size
            else None, (args, kwargs),
        )

        def run(parameters: dict[str, Tensor], args: tuple, kwargs: dict[str, Any]) -> Any:
            mapped = iter(dim is not None for dim in get_leaves(dims))
            args, kwargs = map_leaves(lambda x: _add_batch(x, next(mapped), axis), (args, kwargs))
            result = functional_call(module, parameters, args, kwargs)
            return map_leaves(lambda y: y.squeeze(axis), result)

        return vmap(run, (0, *dims), out_dims=axis, randomness="different")(copies, args, kwargs)

    return call


def _add_batch(x: Any, is_mapped: bool, axis: int) -> Any:
    return x.unsqueeze(axis) if is_mapped else x


def _copy_per_example(parameter: Tensor, size: int, scale: int) -> Tensor:
    """Return a view of the parameter per example, whose gradient becomes `grad_sample`."""
    copies = parameter.detach().expand(size, *parameter.shape).requires_grad_()

    target: Any = parameter

    def keep(gradient: Tensor) -> None:
        gradient = gradient * scale if scale != 1 else gradient
        earlier = getattr(target, "grad_sample", None)
        target.grad_sample = gradient if earlier is None else earlier + gradient

    copies.register_hook(keep)
    return copies


def _check_arguments(module: Any, batch_size: Any, loss_reduction: str) -> None:
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(
            f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}"
        )
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(
            f"Batch size passed must be None or an integer, got {type(batch_size).__name__}"
        )
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for weight in module.parameters():
        if getattr(weight, "grad_sample", None) is not None:
            raise RuntimeError(
                "Current Expanded Weights accumulates the gradients, which will be incorrect for "
                "multiple calls without clearing gradients. Please clear out the grad_sample "
                f"parameter of {weight} or post an issue to pytorch/pytorch to prioritize correct "
                "behavior"
            )


def _find_batch_size(args: tuple, kwargs: dict[str, Any], axis: int) -> int:
    sizes = [x.size(axis) for x in get_leaves((args, kwargs)) if isinstance(x, Tensor)]
    for first, size in zip(sizes, sizes[1:], strict=False):
        if first != size:
            raise RuntimeError(
                f"When computing batch size, found at least one input with batch size {first} and "
                f"one with batch size {size}. Please specify it explicitly using the batch size "
                "kwarg in call_for_per_sample_grads"
            )
    if not sizes:
        raise RuntimeError(
            "Unable to find a tensor in the passed args and kwargs. They may not be pytree-able "
            "and so ExpandedWeights cannot compute the batch size from the inputs. Please specify "
            "it explicitly"
        )
    return sizes[0]
