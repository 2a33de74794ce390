"""Bindings: where a program's inputs come from on each call, and where its results go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...tensor.layout import as_bytes
from ...tensor.random.generator import Generator, default_generator
from ...tensor.tensor import Tensor
from .counter_rng import draw_key
from .trace import Effect, Event, SavedOwner, Storage, Value, address


ANY_GRAD = "any grad"  # the step only tested whether there was a grad, or takes it as an argument


@dataclass(eq=False)
class State:
    """Memory at a fixed address: a parameter, buffer, optimizer state, or a grad that the call sets
    (`is_grad`)."""

    array: np.ndarray
    is_grad: bool = False


@dataclass(eq=False)
class Argument:
    """A window on an argument's memory, relative to the first element of the leaf's array.

    order: the permutation of axes that yields the window; None if it is not a transpose.
    """

    leaf: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    order: tuple[int, ...] | None

    def array(self, arrays: list[np.ndarray]) -> np.ndarray:
        """Return the window on this call's arguments."""
        array = arrays[self.leaf]
        if self.order is not None:
            return array.transpose(self.order).reshape(self.shape)
        memory = as_bytes(_find_owner(array))
        return _view_window(memory, address(array) + self.offset - memory.ctypes.data, self)


@dataclass(eq=False)
class Scalar:
    """A number of an optimizer's update: the update's index, and the number's position in it."""

    update: int
    place: int


@dataclass(eq=False)
class ComputedNumber:
    """A number that the call computes before the run from what exists then."""

    source: str


@dataclass(eq=False)
class RandomInput:
    """Random numbers: function(buffer, *rest) fills the buffer before each run."""

    function: Callable
    buffer: np.ndarray
    view: np.ndarray  # the buffer in the source's shape
    rest: tuple
    kwargs: dict[str, Any]

    def fill(self) -> None:
        """Draw the numbers of one run."""
        self.function(self.buffer, *self.rest, **self.kwargs)


@dataclass(eq=False)
class Update:
    """An optimizer's update of the parameters at the given positions of a group."""

    optimizer: Any
    group: int
    positions: tuple[int, ...]
    names: tuple[str, ...]
    flags: Any
    event: Event


@dataclass(eq=False)
class Output:
    """The program's output `number`, or a window on it.

    order: permutes the output's axes, which are stored by decreasing stride.
    window: (offset, strides, dtype) on the output if it is not a transpose of it.
    """

    number: int
    shape: tuple[int, ...]
    order: tuple[int, ...]
    window: tuple[int, tuple[int, ...], np.dtype] | None = None

    def array(self, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """Return the window on this run's outputs."""
        array = outputs[self.number]
        if self.window is None:
            return array.transpose(self.order)
        offset, strides, dtype = self.window
        if 0 in self.shape:
            nothing = array.reshape(-1)[:0].view(dtype)
            return np.lib.stride_tricks.as_strided(nothing, self.shape, strides)
        return np.ndarray(self.shape, dtype, array, offset, strides)


@dataclass(eq=False)
class ReturnedArgument:
    """A returned tensor that is an argument: the same object."""

    number: int


@dataclass(eq=False)
class ReturnedConstant:
    """A returned object that is the same in each call: a parameter, a plain value."""

    value: Any


@dataclass(eq=False)
class NewTensor:
    """A tensor that each call creates, to return it or as the base of a returned view.

    memory: an output of the program, an argument or outside memory.
    source: the tensor whose version counter it shares.
    is_view: whether it is a view of `source` for autograd; else it shares only the counter, as
        detach() does.
    is_whole: whether it has the same array as its source.
    version: its version if it has its own counter.
    node_name: the class of its node in the recorded call, which printing shows.
    is_inference: whether it is an inference tensor; None: as the mode around the call makes it.
    live: its index among the outputs that backward may start from.
    saved: what nodes saved of it (capture/saved_versions.py).
    """

    memory: Output | Argument | State
    source: ReturnedArgument | ReturnedConstant | NewTensor | None = None
    is_view: bool = False
    is_whole: bool = False
    version: int = 0
    requires_grad: bool = False
    is_leaf: bool = True
    node_name: str = ""
    is_inference: bool | None = None
    live: int | None = None
    saved: tuple[Any, ...] = ()


@dataclass(eq=False)
class HostScalar:
    """A returned number: `operation` is "item" on a tensor, or arithmetic on two numbers."""

    operation: str
    left: Any
    right: Any


@dataclass(eq=False)
class SavedForBackward:
    """Output `number` of the forward program, saved for the backward program."""

    number: int


@dataclass(eq=False)
class Cotangent:
    """The cotangent of a live output; `order` reshapes it to the program's input."""

    live: int
    order: tuple[int, ...]


@dataclass(eq=False)
class BackwardPart:
    """The backward graph for some of the outputs' cotangents.

    slots: for each of its sources, the source's number in the whole graph.
    numbers: for each of its outputs, the output's number in the whole graph.
    """

    graph: Any
    slots: list[int]
    numbers: list[int]


@dataclass(eq=False)
class BackwardBindings:
    """The backward program of a step whose outputs require grad.

    slots: State, Argument, SavedForBackward or Cotangent for each of its inputs.
    inputs: for each of its outputs, the leaf number of an argument, or an outside tensor.
    orders: the axes of its outputs.
    reached: by live output, a bit mask of the `inputs` that it depends on.
    saved: (SavedVersion, SavedOwner) of arguments and outside tensors that eager nodes saved.
    """

    graph: Any
    slots: list[Any]
    recorded: list[Any]
    inputs: list[Any]
    orders: list[tuple[int, ...]]
    expected: list[np.ndarray]
    outputs: int  # number of live outputs
    shapes: list[tuple[tuple[int, ...], np.dtype]]
    reads_what_it_writes: bool  # whether results depend on memory that the step writes
    reached: list[int] = field(default_factory=list)
    saved: list[tuple[Any, SavedOwner]] = field(default_factory=list)
    usual_outputs: int = -1  # bit mask of the outputs from which backward is expected to start
    usual: Any = None  # the BackwardPart for them
    # By output, the axes along which it repeats one element if backward starts from the usual ones.
    repeats: list[tuple[int, ...]] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)  # of the outputs, likewise


@dataclass(eq=False)
class Bindings:
    """Everything that Python does around a run of the program."""

    slots: list[Any] = field(default_factory=list)  # one per input of the program
    updates: list[Update] = field(default_factory=list)
    result: Any = None  # returned; leaves: NewTensor, ReturnedArgument, ReturnedConstant
    grads: list[tuple[Any, Any]] = field(default_factory=list)  # (leaf, its grad afterwards)
    grad_slots: dict[int, int] = field(default_factory=dict)  # slots of grads' memory, by position
    incoming_grads: list[tuple[Any, Any]] = field(default_factory=list)  # (leaf, its grad before)
    recorded: list[Any] = field(default_factory=list)  # inputs of the recorded call
    expected: list[np.ndarray] = field(default_factory=list)  # outputs of the recorded call
    # Writes of the recorded call; None: still in the state's memory, see `snapshot_writes`.
    written: list[np.ndarray | None] = field(default_factory=list)
    # Pairs of leaves that share memory, as (leaf, leaf, distance in bytes).
    overlapping_leaves: list[tuple[int, int, int]] = field(default_factory=list)
    # For these pairs: (same object, same version counter, same base).
    aliasing: list[tuple[int, int, tuple[bool, bool, bool]]] = field(default_factory=list)
    disjoint_leaves: list[tuple[int, int]] = field(default_factory=list)  # must not overlap
    owners: list[np.ndarray] = field(default_factory=list)  # outside memory that is written
    readers: list[np.ndarray] = field(default_factory=list)  # outside memory that is only read
    written_leaves: list[int] = field(default_factory=list)  # leaves whose memory is written
    checks: list[Any] = field(default_factory=list)  # IndexChecks
    has_conditions: bool = False  # whether a run may end with CheckFailed
    backward: BackwardBindings | None = None
    calls: list[str] = field(default_factory=list)  # operators called eagerly, and why
    effects: list[Effect] = field(default_factory=list)  # values: second part of the result
    callbacks: list[Callable] = field(default_factory=list)  # called after each run
    # Writes of a call to each outside memory: (leaf number or tensor, number of writes).
    version_bumps: list[tuple[Any, int]] = field(default_factory=list)
    # How often a call writes each of its gradients in place, by position in `grads`.
    grad_versions: dict[int, int] = field(default_factory=dict)

    def snapshot_writes(self, slots: Sequence[int]) -> None:
        """Copy what the recorded call wrote to `slots`, before later calls overwrite it."""
        for i, (slot, expected) in enumerate(zip(slots, self.written, strict=True)):
            source = self.slots[slot]
            if expected is not None:
                self.written[i] = expected.copy()
            elif isinstance(source, State):
                self.written[i] = source.array.copy()

    def list_absent_grads(self) -> list[tuple[Any, bool]]:
        """Return (leaf, whether its grad was None) for each leaf whose grad the step read."""
        return [(leaf, before is None) for leaf, before in self.incoming_grads]

    def release_recording(self) -> None:
        """Drop the recorded call's values, once the program has been checked."""
        self.recorded, self.expected, self.written = [], [], []
        if self.backward is not None:
            self.backward.recorded, self.backward.expected = [], []


def is_repeatable(bindings: Bindings) -> bool:
    """Whether calling the function again, with the generators as they were, gives the same results.
    It must store nothing but tensors, and take no numbers that may have changed."""
    return bindings.backward is not None and not (
        bindings.updates or bindings.effects or bindings.callbacks or bindings.grads
        or any(isinstance(slot, ComputedNumber) for slot in bindings.slots)
    )


def draws_by_counter(bindings: Bindings) -> bool:
    """Whether a run draws random numbers by counter, as only recorded calls and programs do."""
    return any(isinstance(slot, RandomInput) and slot.function is draw_key
               for slot in bindings.slots)


def list_generators(bindings: Bindings) -> list[Generator]:
    """Return the random generators from which a run draws."""
    draws = [slot for slot in bindings.slots if isinstance(slot, RandomInput)]
    generators = [x for draw in draws for x in (*draw.rest, *draw.kwargs.values())
                  if isinstance(x, Generator)]
    return list(dict.fromkeys([*generators, *([default_generator] if draws else [])]))


def locate_version_bumps(
    version_bumps: list[tuple[Any, int]], leaves: list[Any]
) -> list[tuple[Any, int]]:
    """Replace arguments by their leaf numbers in (tensor, writes) pairs."""
    numbers = {id(leaf._counter): number for number, leaf in enumerate(leaves)
               if isinstance(leaf, Tensor)}
    return [(numbers.get(id(tensor._counter), tensor), writes) for tensor, writes in version_bumps]


def overlap_at(a: np.ndarray, b: np.ndarray, gap: int) -> bool:
    """Whether `b` starts `gap` bytes after `a` in the same memory."""
    return (a is b and not gap) or (
        _find_owner(a) is _find_owner(b) and address(b) - address(a) == gap
    )


class OuterMemory:
    """Memory outside a step's arguments, with a fast test for whether an array lies in it."""

    def __init__(self, owners: Sequence[np.ndarray]) -> None:
        self.owners = {id(owner): owner for owner in owners}
        # NumPy does not know the owner of foreign memory.
        self.foreign = any(not owner.flags.owndata for owner in owners)

    def holds(self, array: np.ndarray) -> bool:
        """Whether an array may share memory with one of them, judged by bounds."""
        owner = array if array.base is None else _find_owner(array)
        if id(owner) in self.owners:
            return True
        if owner.flags.owndata and not self.foreign:
            return False
        return any(np.may_share_memory(array, other) for other in self.owners.values())


def describe_aliasing(a: Any, b: Any) -> tuple[bool, bool, bool]:
    """Return how two arguments alias: (same object, same version counter, same base)."""
    if a is b:
        return True, True, True
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return False, False, False
    roots = [x if x._base is None else x._base for x in (a, b)]
    return False, a._counter is b._counter is not None, roots[0] is roots[1]


def are_disjoint(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays share no memory; False if the bounds cannot tell."""
    if a.base is None and b.base is None:
        return a is not b
    return not np.may_share_memory(a, b)


def view_bytes(memory: np.ndarray, value: Value) -> np.ndarray:
    """Return a Value's window on its storage's bytes. An empty one may start beyond them."""
    return _view_window(memory, value.offset, value)


def _view_window(memory: np.ndarray, offset: int, window: Value | Argument) -> np.ndarray:
    if 0 in window.shape:
        offset = min(max(offset, 0), memory.nbytes)
    return np.ndarray(window.shape, window.dtype, memory, offset, window.strides)


def view_storage(storage: Storage, value: Value) -> np.ndarray:
    """Return the window of a Value on its storage."""
    assert storage.owner is not None
    return view_bytes(as_bytes(storage.owner), value)


def _find_owner(array: np.ndarray) -> np.ndarray:
    from ...tensor.layout import find_owner

    return find_owner(array)
