"""swap_tensors: exchange two tensor objects for everything that refers to them."""

from __future__ import annotations

import copyreg
from typing import Any

from ..native.foundation.own_reference import has_weak_references
from ..tensor import Tensor

_WINDOW_SLOTS = tuple(name for name in Tensor.__slots__ if not name.startswith("__"))


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange everything of two tensors: values, class, attributes, history.

    Raises RuntimeError for a tensor with weak references, which would see the other tensor, and for
    classes with different slots.

    >>> a, b = torch.tensor([1.]), torch.tensor([2, 3])
    >>> torch.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([2, 3]), tensor([1.]))
    """
    for name, tensor in (("t1", t1), ("t2", t2)):
        if has_weak_references(tensor):
            raise RuntimeError(
                f"Cannot swap {name} because it has weakref associated with it"
            )
    slots = [set(copyreg._slotnames(type(t))) for t in (t1, t2)]  # type: ignore[attr-defined]
    if slots[0] != slots[1]:
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    names = slots[0] | set(_WINDOW_SLOTS)
    contents: list[dict[str, Any]] = [_read_contents(t, names) for t in (t1, t2)]
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for tensor, values in ((t1, contents[1]), (t2, contents[0])):
        for name in names:
            if name in values:
                _find_slot(tensor, name).__set__(tensor, values[name])
            elif name in contents[0] or name in contents[1]:
                _find_slot(tensor, name).__delete__(tensor)


def _find_slot(tensor: Tensor, name: str) -> Any:
    """The descriptor of a slot, even if a subclass hides it behind a property."""
    for cls in type(tensor).__mro__:
        if name in cls.__dict__.get("__slots__", ()):
            return cls.__dict__[name]
    raise AttributeError(name)


def _read_contents(tensor: Tensor, names: set[str]) -> dict[str, Any]:
    """The values of the slots that are set."""
    values = {}
    for name in names:
        try:
            values[name] = _find_slot(tensor, name).__get__(tensor)
        except AttributeError:
            continue
    return values
