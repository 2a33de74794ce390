"""The watcher's knowledge: objects by identity, places that were read, and guards on them."""

from __future__ import annotations

import types
from collections.abc import Callable, Container, Iterable
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ..trace.host_numbers import Read
from .declarations import in_library
from .guards import Guard, Proof, Test
from .provenance import UNKNOWN, Kind, NotProvedError, Provenance, is_plain
from .stores import Store

# Containers that count as created by the call if everything in them is known.
_CONTAINERS = (list, tuple, dict, set)
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: attributes of such a class cannot be set


class Facts:
    """Provenances of every object that a watched call met.

    Each provenance keeps its object alive, so ids stay unique while the call is watched.
    """

    def __init__(self, existing: Container[int]) -> None:
        """`existing`: the ids of tensors that were alive before the call."""
        self.proof = Proof()
        self.existing = existing
        self.known: dict[int, Provenance] = {}
        self.reads: dict[Any, Provenance] = {}  # by place
        self.writes: dict[Any, Provenance] = {}
        self.stores: dict[Any, Store] = {}  # by place, in order of the first write
        self.last_read: tuple[Any, Read] | None = None  # the number that item() just returned
        self.read_line: tuple[str, int] = ("", 0)  # where item() last returned a number
        self.functions: dict[types.CodeType, list[Provenance]] = {}  # created by the call
        self.counters: set[str] = set()  # paths that the call increments
        self.line: tuple[str, int] = ("", 0)  # the running line
        self.missing: dict[type, set[str]] = {}  # names that must stay absent from classes
        self.orders: set[type] = set()  # classes whose MRO must stay the same
        self.performed: dict[int, Any] = {}  # by id: objects that a performed call changed
        self.look: Callable[[], None] = lambda: None  # runs before the step reads shared memory
        self._names: dict[int, str] = {}

    # ------------------------------------------------------------------------------ guards

    def constant(self, x: Any) -> str:
        """Return the name of an outside object; paths start from such names."""
        name = self._names.get(id(x))
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

    def guard_type(self, p: Provenance) -> None:
        """Guard the class of an object."""
        key = (id(p.value), "type")
        if key not in self.reads:
            self.reads[key] = Provenance(Kind.PLAIN)
            self.guard(f"{self.path_of(p)}.__class__", Test.IDENTITY, type(p.value))

    def guard_absence(self, p: Provenance, name: str) -> None:
        """Guard that an object's `__dict__` lacks a name, and its class's lookup of that name."""
        self.guard_type(p)
        self.guard_lookup(type(p.value), name)
        key = (id(p.value), "absent", name)
        if type(p.value).__dictoffset__ and key not in self.reads:
            self.reads[key] = p
            self.guard(f"{self.path_of(p)}.__dict__", Test.ABSENT, name)

    def guard_lookup(self, kind: type, *names: str) -> None:
        """Guard the lookup of names on a class, both present and absent ones."""
        for name in names:
            order = [c for c in kind.__mro__ if not c.__flags__ & _IMMUTABLE]
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
        for kind in self.orders:
            self.guard(f"{self.constant(kind)}.__mro__", Test.IDENTITY, kind.__mro__)
        for kind, names in self.missing.items():
            path = f"{self.constant(kind)}.__dict__"
            self.guard(path, Test.NONE_OF, frozenset(names))

    def guard_class(self, owner: type, name: str) -> None:
        """Guard the identity of a class attribute."""
        key = (id(owner), "class", name)
        if owner.__module__ == "builtins" or key in self.reads:
            return
        self.reads[key] = Provenance(Kind.PLAIN)
        raw = next((c.__dict__[name] for c in owner.__mro__ if name in c.__dict__), None)
        current = getattr(owner, name)
        path = f"{self.constant(owner)}.{name}"
        if isinstance(raw, classmethod):
            current, path = current.__func__, f"{path}.__func__"
        if isinstance(raw, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            return
        self.guard(path, Test.IDENTITY, current)

    def guard_code(self, function: Any) -> None:
        """Guard the code object of a function."""
        key = (id(function), "__code__")
        if key not in self.reads and not in_library(function.__code__):
            self.reads[key] = Provenance(Kind.PLAIN)
            path = f"{self.constant(function)}.__code__"
            self.guard(path, Test.IDENTITY, function.__code__)

    # ------------------------------------------------------------------------------- reads

    def read(self, key: Any, path: str, x: Any) -> Provenance:
        """Return the provenance of the object at an outside place; guard that it stays the same."""
        if (key[0], "length") in self.writes:
            raise NotProvedError("it looks at a list that it appends to")
        if key[0] in self.performed:
            raise NotProvedError(f"it reads {self.proof.describe(path)} after a scheduler's step")
        earlier = self.writes.get(key) or self.reads.get(key)
        if earlier is not None:
            same = earlier.value is x or earlier.value is UNKNOWN
            if not same and not (is_plain(x) and earlier.value == x):
                name = self.proof.describe(path)
                raise NotProvedError(f"{name} changed during the call, nobody knows how")
            return earlier
        if is_plain(x):
            guard = self.guard(path, Test.VALUE, x, needed=False)
            p = Provenance(Kind.PLAIN, x, path, guard=guard)
        elif id(x) in self.known:
            p = self.known[id(x)]
            if p.kind is not Kind.FRESH:
                self.guard(path, Test.IDENTITY, x)
            if p.kind is Kind.TENSOR and p.path.startswith("t"):
                self.proof.aliased.append(x)
        else:
            self.guard(path, Test.IDENTITY, x)
            kind = Kind.TENSOR if isinstance(x, Tensor) else Kind.OUTSIDE
            p = self.known[id(x)] = Provenance(kind, x, self.constant(x))
        self.reads[key] = p
        return p

    def argument(self, x: Any, leaves: list[Any]) -> Provenance:
        """Return an argument's provenance; the program guards its structure, leaves and values.

        `leaves`: the flattened arguments; the program names tensors by their index in it.
        """
        if is_plain(x):
            return Provenance(Kind.PLAIN, x)
        if id(x) in self.known:
            return self.known[id(x)]
        if x.__class__ in (list, tuple, dict) or isinstance(x, tuple):
            p = Provenance(Kind.ARGUMENT, x)
            parts = x.values() if isinstance(x, dict) else x
            for part in parts:
                self.argument(part, leaves)
        elif isinstance(x, np.ndarray):
            p = Provenance(Kind.ARGUMENT, x)
        elif isinstance(x, Tensor):
            at = next((i for i, leaf in enumerate(leaves) if leaf is x), None)
            p = Provenance(Kind.TENSOR, x, self.constant(x) if at is None else f"t{at}")
        else:
            p = Provenance(Kind.OUTSIDE, x, self.constant(x))
        self.known[id(x)] = p
        return p

    def need(self, *operands: Provenance) -> None:
        """Mark the guards behind these values as needed, because the step consumes the values."""
        for p in operands:
            if p.guard is not None:
                p.guard.needed = True
            if p.increment is not None and p.increment.path in self.counters:
                raise NotProvedError(self.proof.depends_on(p.increment.path))
            if p.items:
                self.need(*p.items)

    # ---------------------------------------------------------------------------- identity

    def identify(self, x: Any, tainted: bool = False, created: type | None = None) -> Provenance:
        """Return the provenance of an object that unwatched code returned."""
        if is_plain(x):
            return Provenance(Kind.NUMBER if tainted else Kind.PLAIN, x)
        p = self.known.get(id(x))
        if p is not None:
            return p
        if isinstance(x, Tensor):
            return self._tensor(x)
        if created is not None and type(x) is created:
            return self.fresh(x)
        if isinstance(x, types.FunctionType) and x.__code__ in self.functions:
            return self._created_function(x)
        if x.__class__ in _CONTAINERS and _is_of_known(self.known, x):
            return self.fresh(x, tainted=tainted)
        return Provenance(Kind.OPAQUE, x)

    def fresh(self, x: Any, **more: Any) -> Provenance:
        """Return the provenance of an object that the call created."""
        p = self.known.get(id(x))
        if p is None:
            p = self.known[id(x)] = Provenance(Kind.FRESH, x, **more)
        return p

    def resolve(self, p: Provenance, x: Any) -> Provenance:
        """Return a slot's provenance now that its object is visible in a variable."""
        if p.value is not UNKNOWN and (p.value is x or is_plain(x)):
            return p
        if is_plain(x):
            kind = Kind.NUMBER if p.tainted else Kind.PLAIN
            if p.kind in (Kind.PLAIN, Kind.NUMBER) and p.value is UNKNOWN:
                return Provenance(kind, x, p.path, guard=p.guard, increment=p.increment,
                                  read=p.read)
            return Provenance(kind, x, items=p.items)
        earlier = self.known.get(id(x))
        if earlier is not None:
            return earlier
        if isinstance(x, Tensor):
            return self._tensor(x)
        if p.kind is Kind.FRESH and p.value is UNKNOWN:
            p.value = x
            self.known[id(x)] = p
            return p
        if p.kind is Kind.PLAIN and x.__class__ in _CONTAINERS and _is_of_known(self.known, x):
            return self.fresh(x, tainted=p.tainted)
        if p.kind is Kind.METHOD:
            p.value = getattr(x, "__func__", p.value)
            return p
        return Provenance(Kind.OPAQUE, x)

    def _created_function(self, x: types.FunctionType) -> Provenance:
        """Find a function that the call created by its code and the contents of its cells."""
        candidates = self.functions[x.__code__]
        contents = [cell.cell_contents for cell in x.__closure__ or ()]
        for p in candidates:
            cells = p.cells or []
            if len(candidates) == 1 or all(
                variable.content is not None and variable.content.value is content
                for variable, content in zip(cells, contents, strict=True)
            ):
                return p
        return Provenance(Kind.OPAQUE, x)

    def _tensor(self, x: Tensor) -> Provenance:
        """A tensor that the call created, or an outside one with guards on its layout and flags."""
        path = self.constant(x) if id(x) in self.existing else ""
        return Provenance(Kind.TENSOR, x, path)

    def part(self, whole: Provenance, x: Any) -> Provenance:
        """A part of an argument or of an object that the call created."""
        if whole.tainted and is_plain(x):
            return Provenance(Kind.NUMBER, x)
        return self.identify(x, whole.tainted)

    def take_read(self, value: Any) -> Read | None:
        """Return a number's Read if the previous opcode read it from a tensor, else None."""
        known, self.last_read = self.last_read, None
        return known[1] if known is not None and (known[0] is value or value is UNKNOWN) else None

    def forget(self) -> None:
        """Release the call's objects."""
        self.last_read = None
        self.known.clear()
        self.reads.clear()
        self.writes.clear()
        self.stores.clear()
        self.functions.clear()


def outside_containers(facts: Facts) -> dict[int, Any]:
    """Return the outside lists and dicts that the call met, by id."""
    return {key: p.value for key, p in facts.known.items()
            if p.kind in (Kind.OUTSIDE, Kind.ARGUMENT) and isinstance(p.value, (list, dict))}


def _is_of_known(known: dict[int, Provenance], x: Any) -> bool:
    """Whether a container holds only plain values, tensors and known objects."""
    parts: Iterable[Any] = [*x.keys(), *x.values()] if isinstance(x, dict) else x
    return all(
        is_plain(part) or isinstance(part, Tensor) or id(part) in known
        or (part.__class__ in _CONTAINERS and _is_of_known(known, part))
        for part in parts
    )
