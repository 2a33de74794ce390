"""Clip gradients by their total norm, or value by value, in place."""

from __future__ import annotations

import types
from collections.abc import Iterable

import numpy as np

from ... import ops
from ...autograd import no_grad
from ...native.foundation.user_frames import warn
from ...tensor import Tensor, wrap

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_"]

_FAST = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
_LARGE = 8192  # elements above which a second pass costs more than a slow call


def list_grads(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    return [p.grad for p in parameters if p.grad is not None]


def _check_foreach(foreach: bool | None, tensors: list[Tensor]) -> None:
    for tensor in tensors if foreach else ():
        if tensor.is_meta:
            raise RuntimeError(
                f"foreach=True was passed, but can't use the foreach API on {tensor.device.type} "
                "tensors"
            )


def _list_arrays(tensors: list[Tensor]) -> list[np.ndarray] | None:
    """Return the tensors' arrays if all are plain and of one dtype fast in NumPy; else None."""
    arrays = [t._array for t in tensors]
    first = arrays[0].dtype
    is_fast = first in _FAST and all(a.dtype is first and type(a) is np.ndarray for a in arrays)
    return arrays if is_fast else None


@no_grad()
def _get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors as if they were one vector; 0-dim.

    Raises RuntimeError if it is infinite or NaN and `error_if_nonfinite`.

    >>> nn.utils.get_total_norm([torch.tensor([3.]), torch.tensor([[4.]])])
    tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return ops.tensor(0.0)
    _check_foreach(foreach, tensors)
    arrays = _list_arrays(tensors) if norm_type == 2.0 else None
    if arrays is not None:
        flat = [a.ravel("K") for a in arrays]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            squares = np.array([np.dot(a, a) for a in flat], flat[0].dtype)
            total = wrap(np.sqrt(squares.sum()))
    else:
        total = ops.stack([t.norm(norm_type) for t in tensors]).norm(norm_type)
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@no_grad()
def _clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale the gradients so that a total norm above `max_norm` becomes `max_norm`.

    >>> weight = nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([3., 4.])
    >>> norm = nn.utils.get_total_norm([weight.grad])
    >>> nn.utils.clip_grads_with_norm_([weight], 1.0, norm)
    >>> weight.grad
    tensor([0.6000, 0.8000])
    """
    grads = list_grads(parameters)
    _check_foreach(foreach, grads)
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    if not grads or factor.item() == 1.0:  # a NaN is not 1, and reaches every gradient
        for grad in grads:
            grad._bump()  # counts as a write
        return
    arrays = _list_arrays([*grads, factor])
    if arrays is None:
        for grad in grads:
            grad.mul_(factor)
        return
    with np.errstate(invalid="ignore"):
        for grad, array in zip(grads, arrays[:-1], strict=True):
            np.multiply(array, arrays[-1], out=array)
            grad._bump()


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients, as one vector, to a norm of at most `max_norm`.

    Returns the norm before scaling.

    >>> w = torch.ones(2, requires_grad=True)
    >>> (w * 3).sum().backward()
    >>> torch.nn.utils.clip_grad_norm_(w, 1.0)
    tensor(4.2426)
    """
    if not isinstance(parameters, Tensor):
        generator = isinstance(parameters, types.GeneratorType)
        parameters = list(parameters)
        if generator and not parameters:
            warn(
                "`parameters` is an empty generator, no gradient clipping will occur.",
            )
    total = _get_total_norm(list_grads(parameters), norm_type, error_if_nonfinite, foreach)
    _clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Deprecated in favor of `clip_grad_norm_`."""
    warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamp every gradient to [-clip_value, clip_value].

    >>> weight = nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([-3., 0.5])
    >>> nn.utils.clip_grad_value_([weight], 1.0)
    >>> weight.grad
    tensor([-1.0000,  0.5000])
    """
    clip_value = float(clip_value)
    grads = list_grads(parameters)
    _check_foreach(foreach, grads)
    if not grads:
        return
    arrays = _list_arrays(grads)
    if arrays is None:
        for grad in grads:
            grad.clamp_(-clip_value, clip_value)
        return
    lower, upper = (np.asarray(v, arrays[0].dtype) for v in (-clip_value, clip_value))
    for grad, array in zip(grads, arrays, strict=True):
        if array.size > _LARGE:
            np.clip(array, lower, upper, out=array)
        else:  # takes half the time of np.clip, which prepares its arguments in Python
            np.minimum(np.maximum(array, lower, out=array), upper, out=array)
        grad._bump()
