"""Places whose tensors a watched call takes over from the call before, as it does its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...trace.carried_values import (
    Carried, find_space, is_carriable, is_grad_place, read_place,
)
from ...trace.host_numbers import Place
from ...trace.operands import flatten
from ..guards import Test
from ..provenance import Kind, NotProvedError, Provenance
from ..stores import Store

if TYPE_CHECKING:
    from ..facts import Facts


class CarriedPlaces:
    """The values that a call takes over: by place, with the number of their first leaf."""

    def __init__(self) -> None:
        self.values: dict[Any, tuple[Any, int]] = {}
        self.leaves: list[Any] = []  # of the arguments and the values
        self.tensors: set[int] = set()  # ids of those that lie at the places
        self.grads: set[int] = set()  # of those that are gradients of leaves

    def take(self, carried: Sequence[Carried], leaves: list[Any]) -> None:
        """Note the values before the call. `leaves`: those of the arguments and the values."""
        self.leaves, first = leaves, len(leaves) - sum(len(each.leaves) for each in carried)
        for each in carried:
            if each.value is not None and is_grad_place(each.place):
                self.grads.add(id(each.value))
            elif each.value is not None:
                self.values[make_place_key(each.place)] = each.value, first
                self.tensors.update(map(id, each.leaves))
            first += len(each.leaves)

    def holds(self, key: Any, x: Any) -> bool:
        """Whether a place holds what the call takes over."""
        return key in self.values and self.values[key][0] is x

    def take_over(self, facts: Facts, key: Any, path: str) -> Provenance:
        """Return the provenance of what the call takes over; like that of an argument."""
        x, first = self.values[key]
        known = facts.known.get(id(x))
        p = facts.argument(x, self.leaves)
        if known is not None and known.kind is not Kind.TENSOR:
            facts.guard(path, Test.IDENTITY, x)  # the same container lies at two places
        for number, leaf in enumerate(flatten(x), first):
            of_leaf = facts.known[id(leaf)]
            if not of_leaf.path:
                raise NotProvedError(f"{facts.proof.describe(path)} has an unknown origin")
            if of_leaf.path != f"t{number}":
                facts.guard(f"(t{number} is {of_leaf.path})", Test.TRUTH, True)
        return p

    def forget(self) -> None:
        """Release the values."""
        self.values, self.leaves, self.tensors, self.grads = {}, [], set(), set()


def make_place_key(place: Place) -> tuple[int, Any]:
    """Return the key under which a proof notes reads and writes of a place."""
    owner: Any = find_space(place.owner) if place.is_attribute else None
    return id(place.owner if owner is None else owner), place.key


def list_replaced(reads: dict[Any, Provenance], stores: dict[Any, Store]) -> list[Place]:
    """Return the places from which a call took tensors, and where it stored others: the next call
    may take over what this one stored."""
    result = []
    for key, store in stores.items():
        before = reads[key].value if key in reads and store.place.key is not None else None
        if is_carriable(before) and read_place(store.place) is not before:
            result.append(store.place)
    return result
