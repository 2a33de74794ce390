"""Trace: the events of one call of a step, in order, on windows of memory.

A tensor appears as a `Value`: a window (offset, shape, strides, dtype) on a numbered storage. A
view is another window on the same storage, so views are not events.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...native.foundation.allocator import build_memory_error
from ...native.target.graph_costs import COMPARED_BLOCK_BYTES, MAX_COPIED_TO_COMPARE_BYTES
from ...tensor.layout import as_bytes, find_owner
from ...tensor.tree import collect_leaves, map_leaves_of
from ...tensor.windows.lazy_window import LazyWindow
from ...tensor.windows.opaque_window import OpaqueWindow
from ..ir.errors import describe_failure
from ..ir.reasons import Advice, Reason
from .host_numbers import Place
from .number_inputs import NumberInput
from .plain_values import are_same_plain, are_same_setting
from .texts import PrintCall

# Kinds of events:
OPERATOR = "operator"  # an operator of the registry returned `results`
WRITE = "write"  # the window args[0] was overwritten with the value args[1]
CONSTANT = "constant"  # results[0] was created without inputs; `array` is a copy of it
EMPTY = "empty"  # results[0] is uninitialized memory
DRAW = "draw"  # function(array, *rest) filled args[0] with random numbers
UPDATE = "update"  # an optimizer's update formula ran
CALL = "call"  # function(*args, **kwargs), opaque, returned `results` and wrote `written`
EXCHANGE = "exchange"  # a collective over the memory args wrote `written`
CHECK = "check"  # function(args[0]) must be true, or the call raises
WINDOW = "window"  # autograd mapped a base's cotangent to a view's, or back


@dataclass(frozen=True)
class Value:
    """A strided window on a storage; offset and strides in bytes."""

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
        """The half-open range of bytes that it touches; (offset, offset) if it is empty."""
        if 0 in self.shape:
            return self.offset, self.offset
        steps = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(s for s in steps if s < 0)
        high = self.offset + sum(s for s in steps if s > 0) + self.dtype.itemsize
        return low, high


class Role(Enum):
    """What the address of external memory depends on."""

    STATE = auto()  # nothing: it is the same in every call
    ARGUMENT = auto()  # a leaf of the arguments
    COTANGENT = auto()  # what a later backward pass gets


@dataclass(eq=False)
class Storage:
    """Memory that a trace refers to.

    number: its index in the trace.
    owner: the array that owns it; None for memory that the call allocated and may free.
    external: whether it existed before the call.
    whole: all of it as a Value.
    address: its first byte.
    initial: a copy of the bytes of external memory, taken when it was first seen.
    role, position: the leaf of an argument, the storage's number of a cotangent.
    argument_offset: for an argument's memory, the offset of the first argument in it.
    owner_ref: a weak reference to the owner of memory that the call allocated.
    """

    number: int
    owner: np.ndarray | None
    external: bool
    whole: Value
    address: int
    initial: np.ndarray | None = None
    role: Role = Role.STATE
    position: int = 0
    argument_offset: int = 0
    owner_ref: Any = None

    @property
    def name(self) -> str:
        """The role in words, or "" for a state."""
        return {Role.STATE: "", Role.ARGUMENT: f"argument {self.position}",
                Role.COTANGENT: f"argument cotangent {self.position}"}[self.role]


@dataclass(eq=False)
class Event:
    """One recorded event: an operator, a write, a draw, an update."""

    kind: str
    operator: Any = None  # the registry's Operator
    function: Any = None  # for CALL, CHECK, DRAW and WINDOW: the plain function
    args: tuple = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    results: tuple = ()  # Values; None for an absent optional output
    # For an operator: whether it returns a tuple, and which results are windows on other arrays.
    form: tuple[bool, tuple[bool, ...]] = (False, ())
    written: tuple = ()  # Values that a CALL or EXCHANGE wrote
    array: np.ndarray | None = None
    line: str = ""  # file:line of the user's code
    module: str = ""  # path of the module whose forward was running
    backward: bool = False

    @property
    def name(self) -> str:
        """The operator's or function's name."""
        if self.operator is not None:
            return self.operator.name.lstrip("_")
        return getattr(self.function, "__name__", self.kind)

    @property
    def origin(self) -> str:
        """Return what ran and where, for messages."""
        module = f" in {self.module}" if self.module else ""
        way = " (backward)" if self.backward else ""
        return f"{self.name}{way}{module} at {self.line}"


@dataclass(eq=False)
class GradAccess:
    """A call's first access to a leaf's grad, and the grad before it."""

    tensor: Any
    before: Any  # the grad's Tensor, or None
    read: bool  # whether the call read it before setting it
    outside: bool = True  # whether the leaf existed before the call


@dataclass(eq=False)
class Backward:
    """A backward pass from the step's outputs that require grad, recorded after the step.

    mark: the index of its first event.
    inputs: the outside tensors that the outputs depend on.
    grads: the cotangents of `inputs` as Values; None for an input without one.
    versions: theirs.
    reached: by output, a bit mask of the inputs with a gradient that it depends on.
    bases: how many of `outputs`, at the end, are not returned, but are bases of returned views.
        Backward starts from one after a write to its view.
    saved: what the call's nodes saved (capture/saved_versions.py).
    saved_owners: what each of `saved` is: an argument's number, an outside tensor, or the position
        of a returned tensor; without those that nobody else can reach.
    """

    mark: int
    outputs: list[Any]
    cotangents: list[np.ndarray]
    inputs: list[Any]
    grads: list[Value | None] = field(default_factory=list)
    arrays: list[np.ndarray | None] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)  # numbers of outputs, by position
    reached: list[int] = field(default_factory=list)
    bases: int = 0
    saved: list[Any] = field(default_factory=list)
    saved_owners: list[tuple[Any, SavedOwner]] = field(default_factory=list)


class SavedOwner(NamedTuple):
    """Where a saved tensor is to be found at each call; one of the three."""

    leaf: int | None = None
    outside: Any = None
    position: int | None = None


@dataclass(eq=False)
class Effect:
    """A place in Python state where a call stored a value; the program stores one there too. Or a
    call of print, which gets the value."""

    place: Place

    @property
    def name(self) -> str:
        """A name that is the same in every process."""
        return f"{type(self.place.owner).__name__} {self.place.key}"

    @property
    def is_print(self) -> bool:
        """Whether the call printed, instead of storing a value."""
        return type(self.place.owner) is PrintCall


@dataclass(eq=False)
class HostCall:
    """A Python call that the program repeats: a scheduler's step.

    optimizer: the optimizer whose numbers it changes; updates: how many of its updates came before.
    """

    function: Callable[[], Any]
    optimizer: Any
    updates: int
    line: str


class Trace:
    """The events of a call, the memory they touched, and the call's results."""

    def __init__(self, values: bool = True) -> None:
        """`values`: whether to copy external memory as it was before the call."""
        self.values = values
        self.events: list[Event] = []
        self.storages: list[Storage] = []
        self.storage_numbers: dict[int, int] = {}  # by id of the owner, while it is alive
        self.owner_refs: dict[int, Any] = {}  # weak references to owners that the call allocated
        self.grads: dict[int, GradAccess] = {}  # by id of the leaf
        self.problems: list[tuple[str, str]] = []  # (what, line): why it cannot be compiled
        self.problem_places: list[int] = []  # how many events came before each
        self.failure: str | None = None  # a recorder failure; every kind of call would hit it
        self.result: Any = None  # what the call returned, and the tensors that effects stored
        self.plain: list[Any] = []  # the parts of the result that are not tensors
        self.layout: Any = None  # the result's structure; tensors as positions in `returned`
        self.returned: list[Any] = []  # a ReturnedTensor for each tensor of the result
        self.returned_arrays: list[np.ndarray] = []  # their arrays
        self.positions: dict[int, int] = {}  # in `returned`, by id of the tensor
        self.effects: list[Effect] = []
        self.effect_names: set[str] = set()  # once released
        self.host_calls: list[HostCall] = []
        self.known_owners: set[int] = set()  # ids of memory owners that existed before the call
        self.existing_tensors: set[int] = set()  # ids of existing tensors except arguments
        self.argument_tensors: set[int] = set()  # ids of the arguments
        self.version_bumps: list[tuple[Any, int]] = []  # (tensor, writes), one per version counter
        self.externals: dict[int, Any] = {}  # outside tensors that the step used, by id
        self.modes: tuple = ()  # AmbientModes at the call
        self.tensors: dict[int, Any] = {}  # weak references to tensors that the call created
        self.moved: list[Any] = []  # tensors that the call created and gave other memory
        self.modules: list[Any] = []  # weak references to the modules that were called
        self.backward: Backward | None = None
        self.unrecorded_makers: dict[int, str] = {}  # functions that wrapped unknown memory
        self.walked_nodes: dict[int, Any] = {}  # tape nodes that backward visited, by id
        self.proof: Any = None  # whether the Python of such calls may be skipped
        self.pins: list[Any] = []  # weak references to what its guards hold of its arguments
        self.carried: list[Any] = []  # Carried: what it took over from the call before
        self.incoming_grads: list[tuple[Any, bool, int]] = []  # once released: see below
        self.is_released = False
        self.deferred: Any = None  # computes the values of a call that has not executed yet

    # ------------------------------------------------------------------------ memory

    def storage_of(self, array: np.ndarray, fresh: bool = False) -> Storage | None:
        """Return the storage of an array; None for memory of unknown origin.

        `fresh`: the event being recorded allocated the array.
        """
        owner = find_owner(array)
        number = self.storage_numbers.get(id(owner))
        if number is not None:
            return self.storages[number]
        external = id(owner) in self.known_owners
        if not fresh and not external:
            return None
        number, external = len(self.storages), external and not fresh
        extent_value = Value(number, 0, owner.shape, owner.strides, owner.dtype)
        result = Storage(number, owner if external else None, external, extent_value,
                         address(owner))
        if external and self.values:
            result.initial = self.copy_array(as_bytes(owner))
        elif not external:
            result.owner_ref = self._watch(owner)
        self.storage_numbers[id(owner)] = number
        self.storages.append(result)
        return result

    def copy_array(self, array: np.ndarray) -> np.ndarray | None:
        """Copy an array; None if out of memory, which leaves the call uncompiled."""
        try:
            return array.copy()
        except MemoryError:
            self.values = False
            error = build_memory_error(array.nbytes, "a copy of what the step works on")
            self.failure = describe_failure(error, "recorder")
            self.add_problem(self.failure, "")
            return None

    def alias_storage(self, array: np.ndarray, storage: Storage) -> None:
        """Map an array that NumPy considers an owner of memory to the storage that contains it."""
        owner = find_owner(array)
        if id(owner) not in self.storage_numbers:
            self.storage_numbers[id(owner)] = storage.number
            self._watch(owner)

    def _watch(self, owner: np.ndarray) -> Any:
        """Drop the owner's number when it dies, because its id may be reused."""
        key, numbers, watched = id(owner), self.storage_numbers, self.owner_refs

        def forget(_: Any) -> None:
            watched.pop(key, None)
            numbers.pop(key, None)

        reference = watched[key] = weakref.ref(owner, forget)
        return reference

    def value_of(self, array: np.ndarray, fresh: bool = False) -> Value | None:
        """Return an array as a Value; None for memory of unknown origin."""
        if isinstance(array, (OpaqueWindow, LazyWindow)):
            self.add_problem(f"it uses {array.kind} tensors", "")
            return None
        storage = self.storage_of(array, fresh)
        if storage is None:
            return None
        offset = address(array) - storage.address
        return Value(storage.number, offset, array.shape, array.strides, array.dtype)

    def list_absent_grads(self) -> list[tuple[Any, bool]]:
        """Return (leaf, whether its grad was None) for outside leaves whose grad was read and that
        are still alive."""
        leaves = [(leaf(), absent) for leaf, absent, _ in self._list_read_grads()]
        return [(leaf, absent) for leaf, absent in leaves if leaf is not None]

    def list_incoming_grads(self) -> list[int]:
        """Return the ids of the grads that the call read before setting them."""
        return [key for _, _, key in self._list_read_grads()]

    def list_effect_names(self) -> set[str]:
        """Return the names of the places in Python state where the call stored values."""
        return self.effect_names | {effect.name for effect in self.effects}

    def _list_read_grads(self) -> list[tuple[Any, bool, int]]:
        """Return (weak reference to the leaf, whether its grad was None, the grad's id)."""
        if self.is_released:
            return self.incoming_grads
        return [(weakref.ref(grad.tensor) if grad.outside else _return_no_leaf, grad.before is None,
                 id(grad.before)) for grad in self.grads.values() if grad.read]

    def has_created(self, tensor: Any) -> bool:
        """Whether the call created a tensor. Valid while the recorder keeps the others alive, as
        ids are reused."""
        return id(tensor) not in self.existing_tensors and id(tensor) not in self.argument_tensors

    @property
    def communicates(self) -> bool:
        """Whether other processes take part. All ranks then switch programs at the same call."""
        return any(event.kind == EXCHANGE for event in self.events)

    def release_memory(self) -> None:
        """Drop the call's memory, and the objects that it used. The rest can still be compared with
        another trace."""
        self.incoming_grads, self.is_released = self._list_read_grads(), True
        self.grads, self.proof, self.carried = {}, None, []
        self.effect_names, self.effects = self.list_effect_names(), []
        self.returned = [entry if entry.outside is None else
                         entry._replace(outside=weakref.ref(entry.outside))
                         for entry in self.returned]
        for storage in self.storages:
            storage.initial = None
            if storage.role is not Role.STATE:
                storage.owner = None
        for event in self.events:
            if event.kind in (DRAW, UPDATE):
                event.array = None
        self.backward = self.result = None
        self.version_bumps, self.externals = [], {}
        self.returned_arrays, self.positions = [], {}
        self.storage_numbers, self.owner_refs = {}, {}
        self.tensors = {}
        self.unrecorded_makers, self.walked_nodes = {}, {}
        self.known_owners, self.existing_tensors, self.argument_tensors = set(), set(), set()

    def compute_deferred(self) -> None:
        """Compute the values that a recorded call still lacks."""
        if self.deferred is not None:
            self.deferred.compute()

    def add_problem(self, problem: str, line: str) -> None:
        """Record a reason why this call cannot be compiled."""
        self.problems.append((problem, line))
        self.problem_places.append(len(self.events))


def count_updates(trace: Trace, optimizer: Any) -> int:
    """Count the updates that an optimizer ran."""
    return sum(e.kind == UPDATE and e.kwargs["optimizer"] is optimizer for e in trace.events)


def address(array: np.ndarray) -> int:
    """Return the address of an array's first element."""
    return array.__array_interface__["data"][0] if array.dtype.kind != "V" else array.ctypes.data


# ----------------------------------------------------------------------------- comparison


def find_divergence(a: Trace, b: Trace) -> tuple[str, str] | None:
    """Return the first difference between two calls as (what, line), or None.

    Arguments may be different windows on the same memory: batches sliced from a data set.
    """
    offset_shifts = {storage.number: two.argument_offset - storage.argument_offset
             for storage, two in zip(a.storages, b.storages, strict=False)
             if storage.argument_offset != two.argument_offset}
    for first, second in zip(a.events, b.events, strict=False):
        difference = compare_events(first, second, offset_shifts)
        if difference is not None:
            return difference, second.line
    if a.layout != b.layout or not _is_equal(_list_returned(a), _list_returned(b), offset_shifts):
        return "it returns other objects, or views of other tensors, in some calls", ""
    if len(a.plain) != len(b.plain) or not all(map(are_same_plain, a.plain, b.plain)):
        return "it returns another number in each call", ""
    extra = a.list_effect_names() ^ b.list_effect_names()
    if extra:
        return Reason(f"it changes {min(extra)} in some calls only", Advice.DECIDE_OUTSIDE), ""
    calls = [[(call.function, call.updates) for call in trace.host_calls] for trace in (a, b)]
    if calls[0] != calls[1]:
        return (Reason("a scheduler steps in some calls only", Advice.DECIDE_OUTSIDE),
                (*b.host_calls, *a.host_calls)[0].line)
    if len(a.events) != len(b.events):
        longer = a if len(a.events) > len(b.events) else b
        event = longer.events[min(len(a.events), len(b.events))]
        return Reason(f"{event.name} runs in some calls only", Advice.DECIDE_OUTSIDE), event.line
    for old, new in zip(a.storages, b.storages, strict=False):
        if old.external != new.external or (old.external and not _is_same_external(old, new)):
            return (Reason(
                f"it works on {new.name or 'memory'} of another identity in each call (a "
                "tensor carried over from the call before, or created anew outside the step)",
                Advice.KEEP_IN_PLACE), _find_first_use(b, new.number))
    return None


def have_same_pins(a: Trace, b: Trace) -> bool:
    """Whether the guards of both calls hold the same objects of their arguments."""
    return len(a.pins) == len(b.pins) and all(
        pin() is other() is not None for pin, other in zip(a.pins, b.pins, strict=True))


def _return_no_leaf() -> None:
    """A reference to no leaf."""


def _list_returned(trace: Trace) -> list[Any]:
    """Return the description of a trace's result, with ids of outside tensors."""
    entries = []
    for entry in trace.returned:
        outside = entry.outside
        tensor = outside() if isinstance(outside, weakref.ref) else outside
        entries.append(entry._replace(outside=None if outside is None else id(tensor)))
    return entries


def _is_same_external(a: Storage, b: Storage) -> bool:
    if a.role is Role.STATE:
        return a.owner is b.owner
    return a.role is b.role and a.position == b.position


def _find_first_use(trace: Trace, number: int) -> str:
    for event in trace.events:
        for value in collect_values((event.args, event.kwargs, event.results)):
            if value.storage == number:
                return event.line
    return ""


def compare_events(a: Event, b: Event, offset_shifts: dict[int, int]) -> str | None:
    """Return how two events differ, or None. `offset_shifts`: per storage, how many bytes later the
    windows of `b` begin."""
    if a.kind != b.kind or a.operator is not b.operator or a.name != b.name:
        return Reason(f"one call runs {a.name} where another runs {b.name}", Advice.DECIDE_OUTSIDE)
    if a.kind == EMPTY:
        return None if a.results == b.results else "memory of another shape is made"
    if a.kind == CONSTANT and not are_same_bits(a.array, b.array):
        return f"{a.name} makes other numbers in each call"
    if not _is_equal((a.args, a.kwargs), (b.args, b.kwargs), offset_shifts):
        return Reason(f"{a.name} gets other arguments in each call", Advice.PASS_TENSOR)
    if not _is_equal((a.results, a.written), (b.results, b.written), offset_shifts):
        return f"{a.name} gives another shape, or reuses memory, in some calls"
    return None


def are_same_bits(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    """Whether two arrays are equal bit for bit."""
    if a is None or b is None:
        return a is b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.nbytes < MAX_COPIED_TO_COMPARE_BYTES or not (
            a.flags.c_contiguous and b.flags.c_contiguous):
        return a.tobytes() == b.tobytes()
    a, b = as_bytes(a), as_bytes(b)
    return all(np.array_equal(a[start : start + COMPARED_BLOCK_BYTES],
                              b[start : start + COMPARED_BLOCK_BYTES])
               for start in range(0, a.size, COMPARED_BLOCK_BYTES))


def _is_equal(a: Any, b: Any, offset_shifts: dict[int, int]) -> bool:
    """Compare recursively. `offset_shifts`: per storage, bytes added to offsets of `a`."""
    if a is b:
        return True
    if a.__class__ is not b.__class__:
        return False
    if isinstance(a, Value):
        shift_bytes = offset_shifts.get(a.storage, 0)
        return (replace(a, offset=a.offset + shift_bytes) if shift_bytes else a) == b
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(
            _is_equal(x, y, offset_shifts) for x, y in zip(a, b, strict=True)
        )
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_is_equal(a[k], b[k], offset_shifts) for k in a)
    if isinstance(a, np.ndarray):
        return are_same_bits(a, b)
    if isinstance(a, float):
        return a == b or (a != a and b != b)
    if isinstance(a, NumberInput):
        return a.source == b.source
    return are_same_setting(a, b)


def collect_values(x: Any) -> list[Value]:
    """Return the Values in nested tuples, lists, dicts and slices."""
    result: list[Value] = []
    for leaf in collect_leaves((Value, slice), x):
        result += collect_values((leaf.start, leaf.stop, leaf.step)) if leaf.__class__ is slice \
            else (leaf,)
    return result


def map_values(x: Any, function: Callable[[Value], Any]) -> Any:
    """Replace each Value in a nested structure by function(value)."""
    return map_leaves_of(Value, function, x)
