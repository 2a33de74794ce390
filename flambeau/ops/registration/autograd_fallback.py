"""What autograd does with an operator that has a kernel for a device and no derivative: a backward
pass through it warns, and stops there unless the kernel's own operators were recorded.
"""

from __future__ import annotations

from typing import Any

from ...autograd.function import Function
from ...native.foundation.user_frames import warn
from ...tensor.tensor import Tensor

__all__ = ["get_mode", "note_backward", "set_mode"]

_WARNING = (
    "{}: an autograd kernel was not registered to the Autograd key(s) but we are trying to "
    "backprop through it. This may lead to silently incorrect behavior. This behavior is "
    "deprecated and will be removed in a future version of PyTorch. If your operator is "
    "differentiable, please ensure you have registered an autograd kernel to the correct Autograd"
    " key (e.g. DispatchKey::Autograd, DispatchKey::CompositeImplicitAutograd). If your operator "
    "is not differentiable, or to squash this warning and use the previous behavior, please "
    "register torch::CppFunction::makeFallthrough() to DispatchKey::Autograd."
)


class _Fallback:
    """Whether backward passes warn: "warn", or "nothing"."""

    mode = "warn"


def get_mode() -> str:
    """Return "warn" or "nothing": torch._C._get_autograd_fallback_mode."""
    return _Fallback.mode


def set_mode(mode: str) -> None:
    """Choose "warn" or "nothing": torch._C._set_autograd_fallback_mode."""
    if mode not in ("warn", "nothing"):
        raise RuntimeError(f"Unknown autograd fallback mode: {mode}")
    _Fallback.mode = mode


def note_backward(operator: Any, tensors: list[Tensor], result: Any) -> Any:
    """Return a kernel's result, such that a backward pass through it warns.

    `tensors`: those among the arguments.
    """
    if _Fallback.mode != "warn":
        return result
    name = operator.name()
    plain: list[Tensor] = []
    values = list(result) if isinstance(result, (tuple, list)) else [result]
    returns = operator._schema.returns
    spread = len(returns) == len(values) and isinstance(result, (tuple, list))
    for i, value in enumerate(values):
        if not isinstance(value, Tensor):
            continue
        if value.requires_grad:
            _warn_at(value, name)
        elif (value.is_floating_point() or value.is_complex()) and not (
                returns[i if spread else 0].is_written):
            plain.append(value)
    if not plain:
        return result
    noted = _Stop.apply(name, plain, *tensors)
    by_identity = {id(old): new for old, new in zip(plain, noted, strict=True)}
    values = [by_identity.get(id(value), value) for value in values]
    return type(result)(values) if isinstance(result, (tuple, list)) else values[0]


def _warn_at(value: Tensor, name: str) -> None:
    """Warn when a gradient reaches a result that the kernel's operators recorded."""
    def note(g: Any) -> None:
        warn(_WARNING.format(name))

    value.register_hook(note)


class _Stop(Function):
    """Passes results on; in backward it warns and has no gradients."""

    @staticmethod
    def forward(ctx: Any, name: str, results: list[Tensor], *tensors: Tensor) -> Any:
        ctx.operator_name = name
        ctx.set_materialize_grads(False)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:
        warn(_WARNING.format(ctx.operator_name))
        return (None,) * (2 + len(ctx.needs_input_grad[2:]))


_Stop.__name__ = _Stop.__qualname__ = "WarnNotImplemented"
