"""Add guards to a proof: on values, on classes, and on name lookup in classes."""

from __future__ import annotations

import types
from collections.abc import Container, Iterable, Set
from typing import Any

from .declarations import is_in_library
from .guards import Guard, Proof, Test
from .provenance import Aspect, Kind, Provenance
from .purity import (
    IMMUTABLE, SPECIAL_METHODS, computes_members, is_own_class, runs_own_code,
)
from .state.class_state import ClassState
from .state.tensor_state import TensorState


class Guarding:
    """The proof of a watched call, and the guards it needs so far."""

    def __init__(self) -> None:
        self.proof = Proof()
        self.reads: dict[Any, Provenance] = {}  # by place
        self.line: tuple[str, int] = ("", 0)  # the running line
        self.missing: dict[type, set[str]] = {}  # names that must stay absent from classes
        self.closed: set[type] = set()  # classes that get no further special methods
        self.orders: set[type] = set()  # classes whose MRO must stay the same
        # Guards on the identity of objects that paths reach through an argument, by id. Needed once
        # the step consumes more than the attributes it reads of the object.
        self.identities: dict[int, Guard] = {}
        self.pinned: set[str] = set()  # constants that are arguments, or were read through one
        self.tensors = TensorState()
        self.classes = ClassState()
        self._names: dict[int, str] = {}

    def constant(self, x: Any) -> str:
        """Return a name for an outside object, from which paths start."""
        name = self._names.get(id(x))
        if id(x) in self.identities:
            self.identities[id(x)].needed = True
        if name is None:
            name = self._names[id(x)] = f"k{len(self._names)}"
            self.proof.constants[name] = x
        return name

    def path_of(self, p: Provenance) -> str:
        """Return an expression that reads an outside object again."""
        return p.path or self.constant(p.value)

    def guard(self, path: str, test: Test, value: Any, needed: bool = True) -> Guard:
        """Add a guard."""
        guard = Guard(path, test, value, needed, self.line)
        self.proof.guards.append(guard)
        return guard

    def through_argument(self, x: Any, path: str) -> Provenance:
        """Return the provenance of an object that a path reaches through an argument. Each call may
        pass another object of its class."""
        guard = self.identities[id(x)] = self.guard(path, Test.IDENTITY, x, needed=False)
        return Provenance(Kind.OUTSIDE, x, path, guard=guard)

    def note_pin(self, x: Any) -> None:
        """Note an argument, or object reached through one, whose identity is guarded."""
        self.proof.note_pin(x)
        self.pinned.add(self.constant(x))

    def guard_type(self, p: Provenance) -> None:
        """Guard the class of an object."""
        key = (id(p.value), Aspect.TYPE)
        if key not in self.reads:
            self.reads[key] = Provenance(Kind.PLAIN)
            self.guard(f"{self.path_of(p)}.__class__", Test.IDENTITY, type(p.value))

    def guard_absence(self, p: Provenance, name: str) -> None:
        """Guard that an object's `__dict__` lacks a name, and how its class looks it up."""
        self.guard_type(p)
        self.guard_lookup(type(p.value), name)
        key = (id(p.value), Aspect.ABSENT, name)
        if type(p.value).__dictoffset__ and key not in self.reads:
            self.reads[key] = p
            self.guard(f"{self.path_of(p)}.__dict__", Test.ABSENT, name)

    def guard_lookup(self, kind: type, *names: str) -> None:
        """Guard the lookup of names on a class, both present and absent ones."""
        for name in names:
            order = [c for c in kind.__mro__ if not c.__flags__ & IMMUTABLE]
            owner = next((c for c in kind.__mro__ if name in c.__dict__), None)
            if owner in order:
                self.guard_class(kind, name)
                continue
            for base in order:
                self.missing.setdefault(base, set()).add(name)
        if len(kind.__mro__) > 2:
            self.orders.add(kind)

    def guard_classes(self) -> None:
        """Add the guards on classes that lookups went through."""
        if self.classes.members:
            self.guard("the methods of a class", Test.STATE, self.classes)
        for kind in self.orders:
            self.guard(f"{self.constant(kind)}.__mro__", Test.IDENTITY, kind.__mro__)
        for kind, names in self.missing.items():
            path = f"{self.constant(kind)}.__dict__"
            self.guard(path, Test.NONE_OF, frozenset(names))

    def guard_tensors(self, compared: Container[int]) -> None:
        """Guard what the step may have asked about outside tensors. `compared`: the ids of those
        whose memory the program compares."""
        if self.tensors.classes:
            self.tensors.close(compared)
            self.guard("the layout of a tensor", Test.STATE, self.tensors)

    def guard_class(self, owner: type, name: str) -> None:
        """Guard the identity of a class attribute."""
        key = (id(owner), Aspect.CLASS, name)
        if owner.__module__ == "builtins" or key in self.reads:
            return
        self.reads[key] = Provenance(Kind.PLAIN)
        holder = next((c for c in owner.__mro__ if name in c.__dict__), None)
        raw = None if holder is None else holder.__dict__[name]
        if holder is not None and (runs_own_code(raw) or computes_members(owner, name)):
            self._guard_entry(owner, holder, name)
            return
        current = getattr(owner, name)
        path = f"{self.constant(owner)}.{name}"
        if isinstance(raw, classmethod):
            current, path = current.__func__, f"{path}.__func__"
        if isinstance(raw, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            return
        self.guard(path, Test.IDENTITY, current)

    def _guard_entry(self, kind: type, holder: type, name: str) -> None:
        """Guard what a class attribute is, without the code that its lookup runs."""
        self.guard_bases(kind, kind.__mro__[: kind.__mro__.index(holder)], name)
        path = f"{self.constant(holder)}.__dict__[{name!r}]"
        self.guard(path, Test.IDENTITY, holder.__dict__[name])

    def guard_bases(self, kind: type, bases: Iterable[type], name: str) -> None:
        """Guard that these bases of a class lack a name, and remain its bases."""
        self.orders.add(kind)
        for base in bases:
            if not base.__flags__ & IMMUTABLE:
                self.missing.setdefault(base, set()).add(name)

    def guard_special_methods(self, kind: type) -> None:
        """Guard that a class gets no further special methods, which C code would call instead of
        what it calls now. Those that a class has are guarded when they run."""
        if kind not in self.closed:
            self.closed.add(kind)
            self.guard_own_classes(kind, SPECIAL_METHODS)

    def guard_own_classes(self, kind: type, names: Set[str]) -> None:
        """Guard that a class and its bases get no further attributes of these names, apart from
        the classes of the library."""
        for base in kind.__mro__:
            if is_own_class(base):
                self.missing.setdefault(base, set()).update(names - base.__dict__.keys())
                self.orders.add(kind)

    def guard_code(self, function: Any) -> None:
        """Guard the code object of a function."""
        key = (id(function), Aspect.CODE)
        if key not in self.reads and not is_in_library(function.__code__):
            self.reads[key] = Provenance(Kind.PLAIN)
            path = f"{self.constant(function)}.__code__"
            self.guard(path, Test.IDENTITY, function.__code__)
