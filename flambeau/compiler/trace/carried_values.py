"""Carried values: tensors that a step takes over from the call before (`self.h = f(self.h)`).

The place that holds one has another tensor in each call. What it holds is read before the call and
counts as a further argument, after those of the caller: the same guards compare its structure, its
layout, its flags and what it shares memory with. What the step stores there is an ordinary side
effect. A gradient that a step adds to before it begins a new one is such a tensor, too: the first
backward pass of a step that trains two networks in turn adds to the gradients of the other.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...nn.parameter import Parameter
from ...tensor.layout import find_owner
from ...tensor.tensor import Tensor
from .host_numbers import Place
from .operands import flatten, is_named_tuple

if TYPE_CHECKING:
    from .trace import GradAccess, Trace

_CLASSES = (Tensor, Parameter)
_GRAD = "_grad"  # the slot of a leaf's gradient


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
    """Whether a step may take over such an object: dense tensors."""
    if x.__class__ in (tuple, list) or is_named_tuple(x):
        return bool(x) and all(map(is_carriable, x))
    if x.__class__ is dict:
        return bool(x) and all(key.__class__ is str for key in x) and (
            all(map(is_carriable, x.values())))
    return x.__class__ in _CLASSES and x._array.__class__ is np.ndarray


def is_same_place(a: Place, b: Place) -> bool:
    """Whether two places are one."""
    return (a.owner is b.owner and a.is_attribute == b.is_attribute
            and a.key.__class__ is b.key.__class__ and bool(a.key == b.key))


def make_grad_place(leaf: Tensor) -> Place:
    """Return the place of a leaf's gradient."""
    return Place(leaf, _GRAD, is_attribute=True)


def is_grad_place(place: Place) -> bool:
    """Whether a place is that of a leaf's gradient."""
    return place.is_attribute and place.key == _GRAD and isinstance(place.owner, Tensor)


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
    if is_grad_place(place):
        return owner._grad
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


def find_carried_grads(carried: Sequence[Carried]) -> dict[int, Tensor]:
    """Return the gradients that a call takes over, by id of the leaf."""
    return {id(each.place.owner): each.value for each in carried
            if each.value is not None and is_grad_place(each.place)}


def list_new_grads(trace: Trace) -> list[tuple[Place, Tensor]]:
    """Return (place, gradient) of the leaves to whose gradients a call added before it began new
    ones: the next call may take over what this one left."""
    result = []
    for access in trace.grads.values():
        leaf, before, after = access.tensor, access.before, access.tensor._grad
        if (access.read and access.outside and after is not before and before is not None
                and after is not None and is_carriable(before)
                and id(find_owner(before._array)) in trace.storage_numbers):
            result.append((make_grad_place(leaf), after))
    return result


def list_bound_grads(trace: Trace) -> list[GradAccess]:
    """Return the leaves that the call gave other gradients, which lie in the program's memory:
    all but those that it stores as a side effect."""
    stored = {id(effect.place.owner) for effect in trace.effects if is_grad_place(effect.place)}
    return [access for access in trace.grads.values()
            if access.tensor._grad is not access.before and id(access.tensor) not in stored]
