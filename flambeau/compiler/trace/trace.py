"""Trace: what one call of a step did, as events on windows of memory, in order.

Tensors appear as `Value`s: a window (address, shape, strides, dtype) on a numbered storage. Views
need no events: another window on the same storage says all there is to say.
"""

from __future__ import annotations

from collections.abc import Callable
import weakref
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...native.foundation.allocator import out_of_memory_error
from ...tensor.opaque_window import OpaqueWindow
from ...tensor.storage import _as_bytes, owner_of
from .plain_values import same_plain
from ..ir.errors import describe_failure

# What an event is:
OPERATOR = "operator"  # an operator of the registry gave `results`
WRITE = "write"  # the value args[1] was written over the window args[0]
CONSTANT = "constant"  # results[0] was made from nothing; `array` is a copy of it
EMPTY = "empty"  # results[0] is memory not yet written
DRAW = "draw"  # args[0] was filled with random numbers by calling function(array, *rest)
UPDATE = "update"  # an optimiser's formula ran: see optimisers.py
CALL = "call"  # function(*args, **kwargs) gave `results` and wrote `written`, unseen
EXCHANGE = "exchange"  # a collective of the memory args gave `written` new values: exchange.py
WINDOW = "window"  # autograd's maps between a base's cotangent and a window's

_PIECE = 1 << 18  # bytes that are compared at a time, with little memory beside them


@dataclass(frozen=True)
class Value:
    """A window: on which storage, where in it (bytes), and how elements lie (bytes)."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for n in self.shape:
            count *= n
        return count

    @cached_property
    def span(self) -> tuple[int, int]:
        """The bytes from the first to after the last that it touches; empty: (offset, offset)."""
        if 0 in self.shape:
            return self.offset, self.offset
        steps = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(s for s in steps if s < 0)
        high = self.offset + sum(s for s in steps if s > 0) + self.dtype.itemsize
        return low, high


@dataclass(eq=False)
class Storage:
    """Memory that the trace met. `external`: it was there before the call.

    `owner`: the array that owns it; None for what the call made, which goes when the call lets go
    of it. `whole`: all of it. `initial`: a copy of its bytes when it was first seen, for external
    ones. `name`: what it is to the step, where that is known.
    """

    number: int
    owner: np.ndarray | None
    external: bool
    whole: Value
    address: int
    initial: np.ndarray | None = None
    name: str = ""
    start: int = 0  # of an argument's memory: where in it the first argument on it begins
    reference: Any = None  # a weak one to the owner, of memory that the call made


@dataclass(eq=False)
class Event:
    """One thing that happened."""

    kind: str
    operator: Any = None  # the registry's Operator
    function: Any = None  # for CALL, DRAW and WINDOW: the plain function
    args: tuple = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    results: tuple = ()  # Values; None where an output is absent
    # Of an operator: whether it gives a tuple, and which results are parts of other arrays.
    form: tuple[bool, tuple[bool, ...]] = (False, ())
    written: tuple = ()  # Values that a CALL changed
    array: np.ndarray | None = None
    line: str = ""  # file:line of the user's code
    module: str = ""  # the path of the module that was running
    backward: bool = False

    @property
    def name(self) -> str:
        """The operator's or function's name."""
        if self.operator is not None:
            return self.operator.name.lstrip("_")
        return getattr(self.function, "__name__", self.kind)

    @property
    def origin(self) -> str:
        """For people: what and where."""
        where = f" in {self.module}" if self.module else ""
        way = " (backward)" if self.backward else ""
        return f"{self.name}{way}{where} at {self.line}"


@dataclass(eq=False)
class GradAccess:
    """The first thing that a call did with a leaf's grad, and how the grad was before."""

    tensor: Any
    before: Any  # the grad's Tensor, or None
    read: bool  # whether the call looked at it before it set it
    outside: bool = True  # whether the leaf was there before the call


@dataclass(eq=False)
class Backward:
    """A backward pass recorded after the step, from its outputs that are part of a graph.

    `mark`: its first event. `inputs`: the tensors outside that the outputs lead to. `grads`: their
    cotangents as Values, None where there is none.
    """

    mark: int
    outputs: list[Any]
    cotangents: list[np.ndarray]
    inputs: list[Any]
    grads: list[Value | None] = field(default_factory=list)
    arrays: list[np.ndarray | None] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)  # numbers of outputs, by position


@dataclass(eq=False)
class Effect:
    """A tensor, or several, that a call put into Python's memory: where a program puts its own.

    `place`: a dict, in which `key` is set, a cell, or a list, at whose end they are added.
    """

    name: str
    place: Any
    key: Any


@dataclass(eq=False)
class HostCall:
    """A call of Python that a program makes too: a scheduler's step.

    `optimiser`: whose numbers it changes, after how many of its updates.
    """

    function: Callable[[], Any]
    optimiser: Any
    updates: int
    line: str


class Trace:
    """The events of a call, the memory they touched, and what came of it."""

    def __init__(self, values: bool = True) -> None:
        """`values`: whether to keep what memory held before the call."""
        self.values = values
        self.events: list[Event] = []
        self.storages: list[Storage] = []
        self.numbers: dict[int, int] = {}  # of storages, by id of the owner while that is there
        self.watched: dict[int, Any] = {}  # weak references to the owners that the call made
        self.grads: dict[int, GradAccess] = {}  # by id of the leaf
        self.problems: list[tuple[str, str]] = []  # (what, line): why it cannot be compiled
        self.notes: list[tuple[str, str]] = []
        self.result: Any = None  # with what the effects keep beside it, where there are any
        self.plain: list[Any] = []  # what of the result is Python's
        self.layout: Any = None  # its structure, with positions in `returned` for tensors
        self.returned: list[Any] = []  # what each tensor of the result is: ReturnedTensors
        self.returned_arrays: list[np.ndarray] = []  # of these
        self.positions: dict[int, int] = {}  # in `returned`, by id of the tensor
        self.effects: list[Effect] = []
        self.host_calls: list[HostCall] = []
        self.known: set[int] = set()  # ids of owners that were there before the call
        self.existing: set[int] = set()  # ids of tensors that were there, but for arguments
        self.given: set[int] = set()  # ids of those
        self.version_bumps: list[tuple[Any, int]] = []  # (tensor, writes), one for each counter
        self.externals: dict[int, Any] = {}  # those of them that the step used, by id
        self.modes: tuple = ()  # grad mode, inference mode, autocast, precision
        self.tensors: dict[int, Any] = {}  # weak references to the tensors made, by id
        self.views: dict[int, Any] = {}  # and to those that indexing and view() made
        self.modules: list[Any] = []  # weak references to the modules called
        self.backward: Backward | None = None
        self.makers: dict[int, str] = {}  # functions that wrapped memory unrecorded, by its id
        self.walked: dict[int, Any] = {}  # nodes of the tape that backward went through, by id
        self.proof: Any = None  # whether the Python of such calls may be skipped
        self.deferred: Any = None  # what computes the values, where nothing was computed so far

    # ------------------------------------------------------------------------ memory

    def storage(self, array: np.ndarray, fresh: bool = False) -> Storage | None:
        """The storage of an array; None for memory that nobody accounted for.

        `fresh`: the array was made by what is being recorded.
        """
        owner = owner_of(array)
        number = self.numbers.get(id(owner))
        if number is not None:
            return self.storages[number]
        external = id(owner) in self.known
        if not fresh and not external:
            return None
        number, external = len(self.storages), external and not fresh
        whole = Value(number, 0, owner.shape, owner.strides, owner.dtype)
        result = Storage(number, owner if external else None, external, whole, address(owner))
        if external and self.values:
            result.initial = self.copied(_as_bytes(owner))
        elif not external:
            result.reference = self._watch(owner)
        self.numbers[id(owner)] = number
        self.storages.append(result)
        return result

    def copied(self, array: np.ndarray) -> np.ndarray | None:
        """A copy of what memory holds now. Where there is no room for it, None: the call goes on,
        and has no program."""
        try:
            return array.copy()
        except MemoryError:
            self.values = False  # there is none for others either
            error = out_of_memory_error(array.nbytes, "a copy of what the step works on")
            self.problem(describe_failure(error, "recorder"), "")
            return None

    def alias(self, array: np.ndarray, storage: Storage) -> None:
        """Notes that an array, which NumPy takes for the owner of its memory, lies on a storage."""
        owner = owner_of(array)
        if id(owner) not in self.numbers:
            self.numbers[id(owner)] = storage.number
            self._watch(owner)

    def _watch(self, owner: np.ndarray) -> Any:
        """Forgets which storage an owner is once it goes: its id may be another's then."""
        key, numbers, watched = id(owner), self.numbers, self.watched

        def gone(_: Any) -> None:
            watched.pop(key, None)
            numbers.pop(key, None)

        reference = watched[key] = weakref.ref(owner, gone)
        return reference

    def value(self, array: np.ndarray, fresh: bool = False) -> Value | None:
        """The array as a Value; None for memory that nobody accounted for."""
        if isinstance(array, OpaqueWindow):
            self.problem(f"it uses {array.kind} tensors", "")
            return None
        storage = self.storage(array, fresh)
        if storage is None:
            return None
        offset = address(array) - storage.address
        return Value(storage.number, offset, array.shape, array.strides, array.dtype)

    def absent(self) -> list[tuple[Any, bool]]:
        """For each leaf whose grad the call looked at, whether there was none."""
        return [(grad.tensor, grad.before is None) for grad in self.grads.values()
                if grad.read and grad.outside]

    def accumulated(self) -> list[int]:
        """The grads that were there before the call, as ids of tensors that are held."""
        return [id(grad.before) for grad in self.grads.values() if grad.read]

    def made(self, tensor: Any) -> bool:
        """Whether the call made a tensor."""
        both = self.tensors.get(id(tensor)), self.views.get(id(tensor))
        return any(
            stored is not None and stored() is tensor for stored in both
        )  # ids are used again

    @property
    def communicates(self) -> bool:
        """Whether other processes took part: all take their programs over in the same call."""
        return any(event.kind == EXCHANGE for event in self.events)

    def strip(self) -> None:
        """Forgets the memory and tensors of the call; what is left can still be compared."""
        for storage in self.storages:
            storage.initial = None
            if storage.name.startswith("argument"):
                storage.owner = None
        for event in self.events:
            if event.kind in (DRAW, UPDATE):
                event.array = None
        self.backward = self.result = None
        self.returned_arrays, self.positions = [], {}
        self.numbers, self.tensors, self.makers, self.walked = {}, {}, {}, {}
        self.views = {}
        self.watched = {}
        self.known, self.existing, self.given = set(), set(), set()

    def problem(self, what: str, line: str) -> None:
        """Notes a reason why this call cannot be compiled."""
        self.problems.append((what, line))


def updates_of(trace: Trace, optimiser: Any) -> int:
    """How many updates of an optimiser a trace has."""
    return sum(e.kind == UPDATE and e.kwargs["optimiser"] is optimiser for e in trace.events)


def address(array: np.ndarray) -> int:
    """Where an array's first element lies."""
    return array.__array_interface__["data"][0] if array.dtype.kind != "V" else array.ctypes.data


# ----------------------------------------------------------------------------- comparison


def difference(a: Trace, b: Trace) -> tuple[str, str] | None:
    """(what differs, line) between two calls' traces; None when they did the same.

    Arguments may be other parts of a greater memory at each call: batches cut from a data set.
    """
    apart = {storage.number: two.start - storage.start
             for storage, two in zip(a.storages, b.storages, strict=False)
             if storage.start != two.start}
    for item, two in zip(a.events, b.events, strict=False):
        what = _event_difference(item, two, apart)
        if what is not None:
            return what, two.line
    if a.layout != b.layout or not _alike(a.returned, b.returned, apart):
        return "it returns other objects, or views of other tensors, in some calls", ""
    if len(a.plain) != len(b.plain) or not all(map(same_plain, a.plain, b.plain)):
        return "it returns another number in each call", ""
    for retained, others in ((a.effects, b.effects), (b.effects, a.effects)):
        extra = {element.name for element in retained} - {other.name for other in others}
        if extra:
            return f"it changes {min(extra)} in some calls only", ""
    calls = [[(call.function, call.updates) for call in trace.host_calls] for trace in (a, b)]
    if calls[0] != calls[1]:
        return "a scheduler steps in some calls only", (*b.host_calls, *a.host_calls)[0].line
    if len(a.events) != len(b.events):
        longer = a if len(a.events) > len(b.events) else b
        event = longer.events[min(len(a.events), len(b.events))]
        return f"{event.name} runs in some calls only", event.line
    for old, new in zip(a.storages, b.storages, strict=False):
        if old.external != new.external or (old.external and not _same_external(old, new)):
            return (f"it works on {new.name or 'memory'} of another identity in each call "
                    "(a tensor carried over from the call before, or made outside anew)",
                    _first_use(b, new.number))
    return None


def _same_external(single: Storage, two: Storage) -> bool:
    if single.name.startswith("argument"):
        return single.name == two.name
    return single.owner is two.owner


def _first_use(trace: Trace, number: int) -> str:
    for event in trace.events:
        for value in values_in((event.args, event.kwargs, event.results)):
            if value.storage == number:
                return event.line
    return ""


def _event_difference(single: Event, two: Event, apart: dict[int, int]) -> str | None:
    if single.kind != two.kind or single.operator is not two.operator or single.name != two.name:
        return f"one call runs {single.name} where another runs {two.name}"
    if single.kind == EMPTY:
        return None if single.results == two.results else "memory of another shape is made"
    if single.kind == CONSTANT and not same_bits(single.array, two.array):
        return f"{single.name} makes other numbers in each call"
    if not _alike(single.args, two.args, apart) or not _alike(single.kwargs, two.kwargs, apart):
        return f"{single.name} gets other arguments in each call"
    if not _alike(single.results, two.results, apart) or not _alike(
        single.written, two.written, apart
    ):
        return f"{single.name} gives another shape, or reuses memory, in some calls"
    return None


def same_bits(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    """Whether two arrays are equal, bit by bit."""
    if a is None or b is None:
        return a is b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.nbytes < 1024 or not (a.flags.c_contiguous and b.flags.c_contiguous):
        return a.tobytes() == b.tobytes()
    a, b = _as_bytes(a), _as_bytes(b)
    return all(np.array_equal(a[at : at + _PIECE], b[at : at + _PIECE])
               for at in range(0, a.size, _PIECE))


def _alike(a: Any, b: Any, apart: dict[int, int]) -> bool:
    """`apart`: by storage, how much further on the memory of b lies."""
    if a is b:
        return True
    if a.__class__ is not b.__class__:
        return False
    if isinstance(a, Value):
        further = apart.get(a.storage, 0)
        return (replace(a, offset=a.offset + further) if further else a) == b
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(_alike(x, y, apart) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_alike(a[k], b[k], apart) for k in a)
    if isinstance(a, np.ndarray):
        return same_bits(a, b)
    if isinstance(a, float):
        return a == b or (a != a and b != b)
    try:
        return bool(a == b)
    except Exception:
        return False


def values_in(x: Any) -> list[Value]:
    """The Values in nested tuples, lists and dicts."""
    if isinstance(x, Value):
        return [x]
    if isinstance(x, (tuple, list)):
        return [v for item in x for v in values_in(item)]
    if isinstance(x, dict):
        return values_in(list(x.values()))
    if isinstance(x, slice):
        return values_in((x.start, x.stop, x.step))
    return []


def mapped(x: Any, function: Any) -> Any:
    """The nested structure with each Value replaced by function(value)."""
    if isinstance(x, Value):
        return function(x)
    if isinstance(x, tuple):
        result = [mapped(item, function) for item in x]
        return type(x)(*result) if hasattr(x, "_fields") else tuple(result)
    if isinstance(x, list):
        return [mapped(item, function) for item in x]
    if isinstance(x, dict):
        return {key: mapped(single, function) for key, single in x.items()}
    return x
