"""Kernels for aten's operators, as in `Library("aten", "IMPL").impl("sum", f, "CPU")`.

While there are some, a mode below all others hands each operator's call to the kernel that is
registered for it. Autograd goes on to record the operator, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd.mode import MODE
from ...tensor.tensor import Tensor
from ...tensor.tree import collect_leaves
from ..interception import torch_dispatch

__all__ = ["register", "registered"]

# By an operator's name, such as `aten::add.Tensor`: its kernels by dispatch key.
registered: dict[str, dict[str, Callable]] = {}
_ABOVE_AUTOGRAD = ("AutogradCPU", "Autograd")
_KEYS = {"cpu": ("CPU", "CompositeExplicitAutograd"), "meta": ("Meta",)}


class _KernelMode:
    """The mode that looks kernels up. It is no TorchDispatchMode: programs do not see it."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the kernel registered for an operator, else the operator."""
        kwargs = kwargs or {}
        kernels = registered.get(func.name())
        if not kernels:
            return func(*args, **kwargs)
        for key in _ABOVE_AUTOGRAD:
            if key in kernels and not MODE.below_autograd:
                return _run_recorded(kernels[key], args, kwargs)
        tensors = collect_leaves(Tensor, (args, kwargs))
        place = tensors[0].device.type if tensors else "cpu"
        for key in _KEYS.get(place, ()):
            if key in kernels:
                return kernels[key](*args, **kwargs)
        return func(*args, **kwargs)


def _run_recorded(kernel: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run a kernel that sees to gradients itself."""
    before, MODE.grad = MODE.grad, torch_dispatch.STATE.grad_outside
    try:
        return kernel(*args, **kwargs)
    finally:
        MODE.grad = before


_MODE = _KernelMode()


def register(name: str) -> dict[str, Callable]:
    """Return the table of an operator's kernels, and see to its being read from now on.

    >>> from flambeau.ops.registration.aten_kernels import register
    >>> register("aten::cos")
    {}
    """
    if _MODE not in torch_dispatch.LOWEST_MODES:
        torch_dispatch.install_lowest(_MODE)
    return registered.setdefault(name, {})


def retire() -> None:
    """Take the mode away once no kernel is registered."""
    for name in [name for name, kernels in registered.items() if not kernels]:
        del registered[name]
    if not registered and _MODE in torch_dispatch.LOWEST_MODES:
        torch_dispatch.remove_lowest(_MODE)
