"""A device as the default of what a decorated function creates."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..tensor.devices import device as Device
from ._contextlib import context_decorator

__all__ = ["set_device"]


def set_device(device: Device | str | int) -> Callable[[Callable], Callable]:
    """Return a decorator that makes `device` the default inside a function or generator.

    >>> @torch.utils._device.set_device("meta")
    ... def create():
    ...     return torch.empty(3)
    >>> create().device
    device(type='meta')
    """
    return functools.partial(device_decorator, Device(device))


def device_decorator(device: Device, func: Callable[..., Any]) -> Callable[..., Any]:
    """Return `func` with `device` as the default while it runs."""
    return context_decorator(lambda: device, func)
