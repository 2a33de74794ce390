"""Calls of factories as handlers receive them: the overload, sizes as lists, all options."""

from __future__ import annotations

from typing import Any

from ....tensor.devices import device as Device
from ....tensor.devices import get_default_device

# The options that a handler receives, in this order.
_OPTIONS = ("generator", "out", "dtype", "layout", "device", "pin_memory", "memory_format")
_OF_A_SIZE = frozenset(("empty", "zeros", "ones", "rand", "randn"))
_RANGES = {1: "default", 2: "start", 3: "start_step"}


def convert_factory_call(
    name: str, args: tuple, kwargs: dict[str, Any]
) -> tuple[str, tuple, dict[str, Any]]:
    """Return the overload of a factory in aten that a call stands for, its arguments and options.

    >>> from flambeau.ops.interception.dispatched.factories import convert_factory_call
    >>> convert_factory_call("eye", (2, 3), {})
    ('m', (2, 3), {'device': device(type='cpu'), 'pin_memory': False})
    """
    if name in _OF_A_SIZE:
        size = (kwargs.pop("size"),) if "size" in kwargs else args
        args = (list(size),) if size and isinstance(size[0], int) else size
    args = tuple(list(a) if isinstance(a, tuple) else a for a in args)
    kind = _find_overload(name, args, kwargs)
    if kwargs.get("out") is not None:
        return "out", args, {"out": kwargs["out"]}
    place = kwargs.get("device")
    kwargs["device"] = get_default_device() if place is None else Device(place)
    return kind, args, complete_options(kwargs)


def complete_options(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a factory's options in PyTorch's order, without those that are None."""
    kwargs.setdefault("pin_memory", False)
    named = {k: v for k, v in kwargs.items() if k not in _OPTIONS}
    return named | {k: kwargs[k] for k in _OPTIONS if kwargs.get(k) is not None}


def _find_overload(name: str, args: tuple, kwargs: dict[str, Any]) -> str:
    drawn = kwargs.get("generator") is not None
    if name == "empty":
        return "memory_format"
    if name == "arange":
        return _RANGES.get(len(args), "default")
    if name == "eye":
        return "m" if len(args) > 1 else "default"
    if name == "randint" and len(args) > 2:
        return "low_generator" if drawn else "low"
    return "generator" if drawn and name in ("rand", "randn", "randint") else "default"
