"""Guard what `state_dict()` and `load_state_dict()` of modules read, besides members and settings.

The first returns a dict that nobody else has, the second writes only to the tensors that it loads
into, as long as neither runs hooks and no tensor is replaced.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from ....nn.conversion import ConversionPolicy
from ....nn.module import Module
from ....nn.registration import CALL_HOOKS, HOOK_TABLES
from ..facts import Facts
from ..guards import Test
from ..provenance import Aspect, Kind, NotProvedError, Provenance
from .object_state import ObjectState

_HOOKS = HOOK_TABLES - CALL_HOOKS
_UNSAVED = itemgetter("_non_persistent_buffers_set")


def is_saving(function: Any) -> bool:
    """Whether a function of the library is `Module.state_dict`."""
    return function is Module.state_dict


def is_loading(function: Any) -> bool:
    """Whether a function of the library is `Module.load_state_dict`."""
    return function is Module.load_state_dict


def declare_saved_state(
    facts: Facts, function: Any, args: list[Provenance], named: dict[str, Provenance]
) -> None:
    """Guard what one of the two reads, and refuse arguments that let it write to other objects."""
    name = function.__name__
    settings = [*args[2 if is_loading(function) else 1 :], *named.values()]
    if "destination" in named or (is_saving(function) and len(args) > 1):
        raise NotProvedError(f"{name}() writes to a dict")
    if any(p.kind is not Kind.PLAIN for p in settings if p is not named.get("state_dict")):
        raise NotProvedError(f"{name}() gets arguments of unknown origin")
    if len(args) > 3 or ("assign" in named and named["assign"].value is not False):
        raise NotProvedError(f"{name}() replaces the members of a module")
    module = args[0].value
    if not isinstance(module, Module) or args[0].kind is not Kind.OUTSIDE:
        raise NotProvedError(f"{name}() of a module that the step creates")
    if is_loading(function):
        _declare_source(facts, args[1] if len(args) > 1 else named["state_dict"])
    key = (id(module), Aspect.SAVED)
    if key not in facts.reads:
        facts.reads[key] = Provenance(Kind.PLAIN)
        state = SavedState(list(module.modules()))
        if any(state.hooks):
            raise NotProvedError(f"{name}() runs hooks")
        facts.guard("what a module saves", Test.STATE, state)


def _declare_source(facts: Facts, p: Provenance) -> None:
    """Guard the versions that a dict of tensors carries, and that loading copies into tensors."""
    if p.kind not in (Kind.OUTSIDE, Kind.FRESH, Kind.ARGUMENT):
        raise NotProvedError("load_state_dict() reads an object of unknown origin")
    space = getattr(p.value, "__dict__", {})
    versions = facts.known.get(id(space.get("_metadata")))
    if versions is not None and versions.kind is not Kind.FRESH:
        raise NotProvedError("it changes the versions that a dict of tensors carries")
    key = (id(p.value), Aspect.SAVED)
    if p.kind is Kind.OUTSIDE and p.value.__class__ is not dict and key not in facts.reads:
        facts.reads[key] = Provenance(Kind.PLAIN)
        facts.guard("the versions that a dict carries", Test.STATE, ObjectState(space, [*space]))
        facts.guard(f"{facts.path_of(p)}.__dict__", Test.LENGTH, len(space))
    key = (id(ConversionPolicy), Aspect.CONTENT)
    if key not in facts.reads:
        facts.reads[key] = Provenance(Kind.PLAIN)
        if ConversionPolicy.swap:
            raise NotProvedError("load_state_dict() swaps tensors")
        facts.guard(f"{facts.constant(ConversionPolicy)}.swap", Test.VALUE, False)


class SavedState:
    """A snapshot of what a module tree saves: the names of buffers that are left out, versions, and
    that nothing hooks into saving or loading."""

    def __init__(self, modules: list[Module]) -> None:
        self.spaces = [*map(vars, modules)]
        self.classes: list[Any] = [*map(type, modules)]
        self.left_out = [set(names) for names in map(_UNSAVED, self.spaces)]
        self.versions = [kind._version for kind in self.classes]

    @property
    def hooks(self) -> list[Any]:
        """The tables of hooks that exist."""
        return [space[name] for space in self.spaces for name in _HOOKS & space.keys()]

    def is_same(self) -> bool:
        """Whether nothing has changed since the snapshot."""
        return (
            [*map(_UNSAVED, self.spaces)] == self.left_out and not any(self.hooks)
            and [kind._version for kind in self.classes] == self.versions
        )
