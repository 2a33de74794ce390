"""Carried values: tensors that a step takes over from the call before (`self.h = f(self.h)`).

The place that holds one has another tensor in each call. What it holds is read before the call and
counts as a further argument, after those of the caller: the same guards compare its structure, its
layout, its flags and what it shares memory with. What the step stores there is an ordinary side
effect.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...nn.parameter import Parameter
from ...tensor.tensor import Tensor
from .host_numbers import Place
from .operands import flatten, is_named_tuple

_CLASSES = (Tensor, Parameter)


@dataclass(eq=False)
class Carried:
    """A place, and what it held before a call: a tensor, or tensors in tuples, lists and dicts.
    None if it held anything else."""

    place: Place
    value: Any

    @property
    def leaves(self) -> list[Any]:
        """The tensors, which follow the leaves of a call's arguments."""
        return flatten(self.value)


def is_carriable(x: Any) -> bool:
    """Whether a step may take over such an object: dense tensors without a history."""
    if x.__class__ in (tuple, list) or is_named_tuple(x):
        return bool(x) and all(map(is_carriable, x))
    if x.__class__ is dict:
        return bool(x) and all(key.__class__ is str for key in x) and (
            all(map(is_carriable, x.values())))
    return (x.__class__ in _CLASSES and x._array.__class__ is np.ndarray
            and (not x._tracked or x._history() is None))


def is_same_place(a: Place, b: Place) -> bool:
    """Whether two places are one."""
    return (a.owner is b.owner and a.is_attribute == b.is_attribute
            and a.key.__class__ is b.key.__class__ and bool(a.key == b.key))


def find_space(owner: Any) -> Any:
    """Return an object's attributes; None if it has no dict. Runs no code of the step's."""
    read = find_space_reader(owner)
    return None if read is None else read(owner)


def find_space_reader(owner: Any) -> Any:
    """Return the function that reads an object's attributes, which `owner.__dict__` would call if
    its class did not say otherwise."""
    for kind in type(owner).__mro__:
        descriptor = kind.__dict__.get("__dict__")
        if descriptor.__class__ in (types.GetSetDescriptorType, types.MemberDescriptorType):
            return descriptor.__get__
    return None


def read_place(place: Place) -> Any:
    """Return what a place holds, or None if it holds nothing. Runs no code of the step's."""
    owner, key = place.owner, place.key
    try:
        if place.is_attribute:
            space = find_space(owner)
            return None if space is None else space.get(key)
        if owner.__class__ is types.CellType:
            return owner.cell_contents
        return dict.get(owner, key) if isinstance(owner, dict) else owner[key]
    except (LookupError, ValueError):  # a shorter list, an empty cell
        return None


def read_carried(places: Sequence[Place]) -> list[Carried]:
    """Read what the next call takes over."""
    values = [*map(read_place, places)]
    return [Carried(place, x if is_carriable(x) else None)
            for place, x in zip(places, values, strict=True)]


def list_leaves(carried: Sequence[Carried]) -> list[Any]:
    """Return the leaves of carried values."""
    return [leaf for each in carried for leaf in each.leaves]
