"""A device as the default of what a decorated function creates."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any

from ..tensor.devices import device as Device

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
    """Return `func` with `device` as the default while it runs; a generator runs at intervals."""
    if inspect.isgeneratorfunction(func):
        return _decorate_generator(device, func)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        with device:
            return func(*args, **kwargs)

    return call


def _decorate_generator(
    device: Device, func: Callable[..., Generator]
) -> Callable[..., Generator]:
    @functools.wraps(func)
    def generate(*args: Any, **kwargs: Any) -> Generator:
        generator, answer = func(*args, **kwargs), None
        try:
            while True:
                with device:
                    value = generator.send(answer)
                answer = yield value
        except StopIteration as end:
            return end.value
        finally:
            generator.close()

    return generate
