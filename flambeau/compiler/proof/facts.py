"""The watcher's knowledge: objects by identity, and the places that were read."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Container, Iterable
from typing import Any

import numpy as np

from ...autograd.function import FunctionCtx, is_in_use
from ...nn.parameter import is_lazy
from ...tensor.tensor import Tensor
from ..trace.host_numbers import Read
from ..trace.number_inputs import NumberInput
from ..trace.plain_values import computes_class
from ..trace.texts import Text
from .guarding import Guarding
from .guards import Guard, Test
from .provenance import (
    UNKNOWN, Aspect, Kind, NotProvedError, Provenance, Symbol, is_number, is_plain,
)
from .purity import is_read_by_path
from .shadow_frame import Offer
from .state.carried_places import CarriedPlaces
from .stores import Store

# Containers that count as created by the call if everything in them is known.
_CONTAINERS = (list, tuple, dict, set)
_THROUGH_ARGUMENT = re.compile(r"t\d+\.")  # paths that start at an argument


class Facts(Guarding):
    """Provenances of all objects seen during a watched call.

    Each provenance keeps its object alive, so ids stay unique while the call is watched.
    """

    def __init__(self, existing: Container[int]) -> None:
        """`existing`: the ids of tensors that were alive before the call."""
        super().__init__()
        self.classes.add(Tensor)  # the library calls its methods, too
        self.existing = existing
        self.carried = CarriedPlaces()
        self.known: dict[int, Provenance] = {}
        self.writes: dict[Any, Provenance] = {}
        self.stores: dict[Any, Store] = {}  # by place, in order of the first write
        self.last_read: tuple[Any, Read] | None = None  # the number that item() just returned
        self.read_line: tuple[str, int] = ("", 0)  # where item() last returned a number
        self.functions: dict[types.CodeType, list[Provenance]] = {}  # created by the call
        self.written: dict[str, Store] = {}  # by path
        self.decided: dict[str, tuple[Guard, tuple[Guard, ...]]] = {}  # guard, reads by expression
        self.counters: set[str] = set()  # paths that the call increments
        self.performed: dict[int, Any] = {}  # objects that a performed call changed, by id
        self.look: Callable[[], None] = lambda: None  # runs before the step reads shared memory
        # Returns a function that tells whether the call has written to tensors since.
        self.watch_writes: Callable[[], Callable[[], bool]] = lambda: lambda: False
        # Whether a tensor's memory is what it was before the call.
        self.is_unwritten: Callable[[Tensor], bool] = lambda x: False
        self.prints = 0  # how often the call has printed
        self.offer: Offer | None = None  # of the running opcode
        self.unsettled: list[Offer] = []  # whose opcodes did not end
        self.number_inputs: list[tuple[NumberInput, Provenance]] = []  # that operators took
        self.varying: Container[Any] = ()  # paths of numbers that changed between earlier calls
        self.root: types.FrameType | None = None  # that calls the step

    # ------------------------------------------------------------------------------- reads

    def read(self, key: Any, path: str, x: Any) -> Provenance:
        """Return the provenance of the object at an outside place; guard that it stays the same."""
        self._refuse_changed(key[0], path)
        earlier = self.writes.get(key) or self.reads.get(key)
        if earlier is not None:
            same = earlier.value is x or earlier.value is UNKNOWN
            if not same and not (is_plain(x) and earlier.value == x):
                name = self.proof.describe(path)
                raise NotProvedError(f"{name} changed during the call in an unknown way")
            return earlier
        if self.carried.holds(key, x):
            p = self.carried.take_over(self, key, path)
        elif is_plain(x):
            guard = self.guard(path, Test.VALUE, x, needed=False)
            symbol = Symbol(path, (guard,)) if is_number(x) else None
            p = Provenance(Kind.PLAIN, x, path, guard=guard, symbol=symbol)
        elif computes_class(type(x)):
            raise NotProvedError(f"{type(x).__name__} customizes attribute lookup")
        elif id(x) in self.known:
            p = self.known[id(x)]
            if p.kind is Kind.ARGUMENT:  # in the next call it may be another one than the argument
                raise NotProvedError(f"{self.proof.describe(path)} is an argument, too")
            if id(x) in self.identities:
                self.need(p)
            if p.kind is not Kind.FRESH:
                self.guard(path, Test.IDENTITY, x)
            if p.kind is Kind.TENSOR and p.path.startswith("t"):
                self.proof.outside_tensors.append(x)
        elif _THROUGH_ARGUMENT.match(path) and is_read_by_path(x):
            p = self.known[id(x)] = self.through_argument(x, path)
            self.guard_type(p)
        else:
            self.guard(path, Test.IDENTITY, x)
            if _THROUGH_ARGUMENT.match(path) or _find_root(path) in self.pinned:
                self.note_pin(x)
            kind = Kind.TENSOR if isinstance(x, Tensor) else Kind.OUTSIDE
            p = self.known[id(x)] = Provenance(kind, x, self.constant(x))
            if kind is Kind.TENSOR:
                self.tensors.note(x)
                self.proof.outside_tensors.append(x)
        self.reads[key] = p
        return p

    def _refuse_changed(self, owner: int, path: str) -> None:
        if (owner, Aspect.LENGTH) in self.writes:
            raise NotProvedError("it reads a list that it appends to")
        if owner in self.performed:
            raise NotProvedError(f"it reads {self.proof.describe(path)} after a scheduler's step")

    def argument(self, x: Any, leaves: list[Any]) -> Provenance:
        """Return an argument's provenance; the program guards its structure, leaves and values.

        `leaves`: the flattened arguments; the program names tensors by their index in it.
        """
        if is_plain(x):
            return Provenance(Kind.PLAIN, x)
        if id(x) in self.known:
            return self.known[id(x)]
        if computes_class(type(x)):
            raise NotProvedError(f"{type(x).__name__} customizes attribute lookup")
        if x.__class__ in (list, tuple, dict) or isinstance(x, tuple):
            p = Provenance(Kind.ARGUMENT, x)
            parts = x.values() if isinstance(x, dict) else x
            for part in parts:
                self.argument(part, leaves)
        elif isinstance(x, np.ndarray):
            p = Provenance(Kind.ARGUMENT, x)
        else:
            number = next((i for i, leaf in enumerate(leaves) if leaf is x), None)
            if isinstance(x, Tensor):
                p = Provenance(Kind.TENSOR, x, self.constant(x) if number is None else f"t{number}")
                if number is None:
                    self.tensors.note(x)
            else:
                refuse_finalizer(self, type(x))  # the proof would keep the object alive
                if number is not None and is_read_by_path(x):
                    self.proof.argument_names[f"t{number}"] = type(x).__name__
                    p = self.through_argument(x, f"t{number}")
                else:
                    self.note_pin(x)
                    p = Provenance(Kind.OUTSIDE, x, self.constant(x))
        self.known[id(x)] = p
        return p

    def need(self, *operands: Provenance) -> None:
        """Mark the guards behind these values as needed, because the step consumes the values."""
        for p in operands:
            for guard in filter(None, (p.guard, *(p.symbol.reads if p.symbol else ()))):
                guard.needed = True
            if p.increment is not None and p.increment.path in self.counters:
                raise NotProvedError(self.proof.depends_on(p.increment.path))
            if p.items:
                self.need(*p.items)
            if p.text is not None:
                self.need(*_list_operands(p.text))

    # ---------------------------------------------------------------------------- identity

    def identify(self, x: Any, tainted: bool = False, created: type | None = None) -> Provenance:
        """Return the provenance of an object that unwatched code returned."""
        if is_plain(x):
            return Provenance(Kind.NUMBER if tainted else Kind.PLAIN, x)
        p = self.known.get(id(x))
        if p is not None:
            return p
        if isinstance(x, Tensor):
            return self._identify_tensor(x)
        if created is not None and type(x) is created:
            return self.fresh(x)
        if isinstance(x, FunctionCtx) and not is_in_use(x):
            return self.fresh(x)  # of a custom function whose `forward` begins
        if isinstance(x, types.FunctionType) and x.__code__ in self.functions:
            return self._identify_created_function(x)
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
            return self._identify_tensor(x)
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

    def _identify_created_function(self, x: types.FunctionType) -> Provenance:
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

    def _identify_tensor(self, x: Tensor) -> Provenance:
        """Return the provenance of a tensor, with a path if it existed before the call."""
        if id(x) in self.carried.grads:
            return self.argument(x, self.carried.leaves)
        if id(x) in self.carried.tensors:
            raise NotProvedError("it finds a tensor of the call before in an unknown way")
        if id(x) not in self.existing and not is_lazy(x):
            return Provenance(Kind.TENSOR, x)
        self.tensors.note(x)
        return Provenance(Kind.TENSOR, x, self.constant(x))

    def part(self, whole: Provenance, x: Any) -> Provenance:
        """Return the provenance of a part of an argument or of an object that the call created."""
        if whole.tainted and is_plain(x):
            return Provenance(Kind.NUMBER, x)
        return self.identify(x, whole.tainted)

    def require_order(self, key: Any, path: str) -> None:
        """Refuse another write to a place that the call wrote to before it last printed."""
        store = self.stores.get(key)
        if store is not None and store.after != self.prints:
            raise NotProvedError(f"it writes {path}, prints, and writes it again")

    def close_stores(self) -> list[Store]:
        """Return the call's stores. Guard the identity of objects of arguments whose class it wrote
        to: an object that it wrote may be one of them."""
        written = {type(store.place.owner) for store in self.stores.values()}
        for guard in self.identities.values():
            guard.needed |= type(guard.value) in written
        return [*self.stores.values()]

    def drop_guards(self) -> None:
        """Drop guards on values that the step did not consume."""
        self.proof.guards = [guard for guard in self.proof.guards if guard.needed]
        for guard in self.identities.values():
            if guard.needed:
                self.proof.note_pin(guard.value)

    def take_read(self, value: Any) -> Read | None:
        """Return a number's Read if the previous opcode read it from a tensor, else None."""
        known, self.last_read = self.last_read, None
        return known[1] if known is not None and (known[0] is value or value is UNKNOWN) else None

    def forget(self) -> None:
        """Release the call's objects."""
        self.last_read = self.root = None
        self.carried.forget()
        for met in (self.known, self.reads, self.writes, self.stores, self.written, self.functions):
            met.clear()


def _list_operands(text: Text) -> list[Provenance]:
    """Return what a text is made of."""
    return [p for part in text.parts
            for p in (_list_operands(part) if part.__class__ is Text else [part])]


def collect_outside_containers(facts: Facts) -> dict[int, Any]:
    """Return the outside lists and dicts seen during the call, by id."""
    return {key: p.value for key, p in facts.known.items()
            if p.kind in (Kind.OUTSIDE, Kind.ARGUMENT) and isinstance(p.value, (list, dict))}


def _find_root(path: str) -> str:
    """Return the name that a path starts from."""
    return re.split(r"\W", path, maxsplit=1)[0]


def _is_of_known(known: dict[int, Provenance], x: Any) -> bool:
    """Whether a container holds only plain values, tensors and known objects."""
    parts: Iterable[Any] = [*x.keys(), *x.values()] if isinstance(x, dict) else x
    return all(
        is_plain(part) or isinstance(part, Tensor) or id(part) in known
        or (part.__class__ in _CONTAINERS and _is_of_known(known, part))
        for part in parts
    )


def refuse_finalizer(facts: Facts, kind: type) -> None:
    """Refuse a class with `__del__`, which runs at a time that no opcode shows."""
    if any("__del__" in c.__dict__ for c in kind.__mro__):
        raise NotProvedError(f"{kind.__name__} runs code when an instance is destroyed")
    facts.guard_lookup(kind, "__del__")
