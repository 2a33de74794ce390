"""torch.autograd.forward_ad: dual numbers, tensors that carry a tangent.

While a level is active, operators push tangents forward (`ops/interception/forward_mode.py`). A
tensor stores a primal and a tangent per level; levels nest and have unique numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from ..tensor.printing import Suffixes
from ..tensor.tensor import Tensor
from .tangents import (
    LEVELS, get_primal, get_tangent, give, hide, match_layout, pop_level, push_level, tangents_of,
)

__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "set_forward_mode_enabled", "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """The parts of a dual number; `tangent` is None if the tensor carries none."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Enter forward mode. Raise RuntimeError if already inside such a level.

    >>> level = torch.autograd.forward_ad.enter_dual_level()
    >>> torch.autograd.forward_ad.exit_dual_level(level=level)
    """
    if LEVELS.public:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    LEVELS.public = True
    push_level()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Leave forward mode and drop its tangents."""
    if not LEVELS.public or level not in (None, 0):
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was "
                           "entered. This is not supported.")
    LEVELS.public = False
    pop_level(LEVELS.active[-1])


class dual_level:
    """Context in which tensors can carry tangents.

    >>> fwAD = torch.autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.), torch.tensor(1.))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


class set_forward_mode_enabled:
    """Context and decorator in which operators push tangents or, with False, drop them."""

    def __init__(self, mode: bool) -> None:
        self._mode = mode
        self._before, LEVELS.enabled = LEVELS.enabled, mode

    def __call__(self, function: Callable) -> Callable:
        """Return the function wrapped to run in this context."""
        LEVELS.enabled = self._before  # this object only decorates

        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with set_forward_mode_enabled(self._mode):
                return function(*args, **kwargs)

        return within

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        LEVELS.enabled = self._before


_set_fwd_grad_enabled = set_forward_mode_enabled


def _is_fwd_grad_enabled() -> bool:
    """Return whether operators push tangents in this thread."""
    return LEVELS.enabled


def __getattr__(name: str) -> Any:
    if name == "_current_level":  # PyTorch's counter: 0 within a level, else -1
        return LEVELS.public - 1
    raise AttributeError(f"module 'torch.autograd.forward_ad' has no attribute '{name}'")


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a view of `tensor` that carries `tangent`, which must have its shape.

    Raise RuntimeError outside of a level, ValueError for tensors that are not floating or complex.
    """
    if not LEVELS.active:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, "
                           "make sure to enter_dual_level() first.")
    for what, x in (("primal", tensor), ("tangent", tangent)):
        if not (x.is_floating_point() or x.is_complex()):
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {x.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )
    now = LEVELS.active[-1]
    if get_tangent(tensor, now) is not None:
        raise RuntimeError("Trying to set a forward gradient on a tensor that already has one")
    if get_tangent(tangent, now) is not None:
        raise RuntimeError("Trying to set a forward gradient that has a forward gradient at the "
                           "same level, this is not supported.")
    dual = tensor.view_as(tensor)
    if tensor.is_inference():
        dual._base = None  # not a view: can be written in place with its tangent
    return give({**tangents_of(dual), now: (None, match_layout(tangent, tensor))}, dual)


def _find_shown_tangent(tensor: Tensor) -> Tensor | None:
    """Return the tangent to print with a tensor, or None."""
    return get_tangent(tensor, LEVELS.active[-1]) if LEVELS.active else None


Suffixes.tangent = staticmethod(_find_shown_tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return a view of the primal, and the tangent at the innermost level.

    >>> torch.autograd.forward_ad.unpack_dual(torch.ones(1))
    UnpackedDualTensor(primal=tensor([1.]), tangent=None)
    """
    if not LEVELS.active:
        return UnpackedDualTensor(tensor, None)
    tangent = get_tangent(tensor, LEVELS.active[-1])
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    primal = get_primal(tensor, LEVELS.active[-1])
    shown = hide(primal.view_as(primal), (LEVELS.active[-1],), primal)
    return UnpackedDualTensor(shown, tangent)
