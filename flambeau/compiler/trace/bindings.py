"""Bindings: where a program's sources come from at each call, and where its results go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...tensor.storage import _as_bytes
from ...tensor.tensor import Tensor
from .trace import Effect, Event, Storage, Value, address


ANY = "any grad"  # a grad that was only looked at: whether there was one


@dataclass(eq=False)
class State:
    """Memory that stays where it is: a parameter, a buffer, a state of an optimiser, a grad."""

    array: np.ndarray


@dataclass(eq=False)
class Argument:
    """Memory of an argument: a window relative to the first element of the leaf's array.

    `order`: the transposition that is all there is to it; None where it is another window.
    """

    leaf: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    order: tuple[int, ...] | None

    def array(self, arrays: list[np.ndarray]) -> np.ndarray:
        """The window, from the arrays of all arguments."""
        array = arrays[self.leaf]
        if self.order is not None:
            return array.transpose(self.order).reshape(self.shape)
        memory = _as_bytes(_owner(array))
        start = address(array) + self.offset - memory.ctypes.data
        return np.ndarray(self.shape, self.dtype, memory, start, self.strides)


@dataclass(eq=False)
class Scalar:
    """A number of an optimiser's update: which update, and which of its numbers."""

    update: int
    place: int


@dataclass(eq=False)
class Drawn:
    """Random numbers: before each call function(buffer, *rest) fills the buffer anew."""

    function: Callable
    buffer: np.ndarray
    view: np.ndarray  # the buffer in the source's shape
    rest: tuple
    kwargs: dict[str, Any]

    def fill(self) -> None:
        """Draws."""
        self.function(self.buffer, *self.rest, **self.kwargs)


@dataclass(eq=False)
class Update:
    """An optimiser's update of the parameters at some positions of a group."""

    optimiser: Any
    group: int
    positions: tuple[int, ...]
    names: tuple[str, ...]
    flags: Any
    event: Event


@dataclass(eq=False)
class Output:
    """Memory that the program makes: its output `number`, or a part of that.

    `order`: its axes, from those of the output, which lie by falling stride. `window`: where it
    lies on the output, as (offset, strides, dtype), where that is not the output transposed.
    """

    number: int
    shape: tuple[int, ...]
    order: tuple[int, ...]
    window: tuple[int, tuple[int, ...], np.dtype] | None = None

    def array(self, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """Its memory, from the program's outputs."""
        whole = outputs[self.number]
        if self.window is None:
            return whole.transpose(self.order)
        offset, strides, dtype = self.window
        if 0 in self.shape:
            return np.lib.stride_tricks.as_strided(whole.view(dtype), self.shape, strides)
        return np.ndarray(self.shape, dtype, whole, offset, strides)


@dataclass(eq=False)
class Leaf:
    """A tensor returned that is an argument itself: the same object."""

    number: int


@dataclass(eq=False)
class Same:
    """Anything returned that is the same object at each call: a parameter, a plain value."""

    value: Any


@dataclass(eq=False)
class NewTensor:
    """A tensor that each call makes, to return it or as the base of a view that it returns.

    It lies on an output of the program, on an argument or on memory from outside. `source` is the
    tensor whose version counter it shares: `is_view` says whether it is a view of that, or of its
    base, for autograd; else it shares the counter alone, as detach() does.
    """

    memory: Output | Argument | State
    source: Leaf | Same | NewTensor | None = None
    is_view: bool = False
    is_whole: bool = False  # on the very array of its source
    version: int = 0  # where it has a counter of its own
    requires_grad: bool = False
    is_leaf: bool = True
    live: int | None = None  # which of the outputs that backward may come to


@dataclass(eq=False)
class Read:
    """A number returned: of a tensor, by "item", or of two numbers; see reads.py."""

    operation: str
    left: Any
    right: Any


@dataclass(eq=False)
class Kept:
    """A value that the forward program keeps for the backward one: its output `number`."""

    number: int


@dataclass(eq=False)
class Cotangent:
    """The cotangent of a live output; `order` brings it to the shape of the source."""

    live: int
    order: tuple[int, ...]


@dataclass(eq=False)
class BackwardBindings:
    """The second program, of a step whose outputs are part of a graph.

    `slots`: State, Argument, Kept or Cotangent for each of its sources. `inputs`: for each of its
    outputs, the leaf number of an argument, or a tensor outside. `orders`: their axes.
    """

    graph: Any
    slots: list[Any]
    recorded: list[Any]
    inputs: list[Any]
    orders: list[tuple[int, ...]]
    expected: list[np.ndarray]
    outputs: int  # how many live outputs there are
    shapes: list[tuple[tuple[int, ...], np.dtype]]
    reads_what_it_writes: bool  # whether results depend on memory that the step writes


@dataclass(eq=False)
class Bindings:
    """All that Python has to do around a run of the program."""

    slots: list[Any] = field(default_factory=list)  # for each source
    updates: list[Update] = field(default_factory=list)
    result: Any = None  # the structure returned, with NewTensor, Leaf and Same for its leaves
    grads: list[tuple[Any, Any]] = field(default_factory=list)  # (leaf, its grad afterwards)
    homes: dict[int, int] = field(default_factory=dict)  # the slots with their memory, once asked
    entry: list[tuple[Any, Any]] = field(default_factory=list)  # (leaf, its grad before)
    expected: list[np.ndarray] = field(default_factory=list)  # outputs of the recorded call
    # Writes of the recorded call; None: what now lies in the state's own memory, see `settle`.
    written: list[np.ndarray | None] = field(default_factory=list)
    recorded: list[Any] = field(default_factory=list)  # the sources of the recorded call
    together: list[tuple[int, int, int]] = field(default_factory=list)  # leaves on one memory
    # For leaves on one memory, by numbers: are they one object, have they one counter, one base?
    kinships: list[tuple[int, int, tuple[bool, bool, bool]]] = field(default_factory=list)
    apart: list[tuple[int, int]] = field(default_factory=list)  # leaves that must not be
    owners: list[np.ndarray] = field(default_factory=list)  # written memory outside of arguments
    readers: list[np.ndarray] = field(default_factory=list)  # and such as is only read
    written_leaves: list[int] = field(default_factory=list)  # whose memory the step writes
    checks: list[Any] = field(default_factory=list)  # bounds of indices, see bounds.py
    looked: bool = False  # whether they depend on what states held
    backward: BackwardBindings | None = None
    calls: list[str] = field(default_factory=list)  # operators called as they are, and why
    effects: list[Effect] = field(default_factory=list)  # which the result's second part serves
    after: list[Callable] = field(default_factory=list)  # what is called once it has run
    # How often a call writes to each memory from outside: (leaf number or tensor, writes).
    version_bumps: list[tuple[Any, int]] = field(default_factory=list)

    def settle(self, slots: Sequence[int]) -> None:
        """Copies what the recorded call wrote, before other calls write there; `slots`: where."""
        for i, (slot, wanted) in enumerate(zip(slots, self.written, strict=True)):
            supplied = self.slots[slot]
            if wanted is not None:
                self.written[i] = wanted.copy()
            elif isinstance(supplied, State):
                self.written[i] = supplied.array.copy()

    def absent(self) -> list[tuple[Any, bool]]:
        """For each leaf whose grad was looked at, whether there was none."""
        return [(leaf, before is None) for leaf, before in self.entry]

    def forget(self) -> None:
        """Lets go of the values of the recorded call, once the program is checked."""
        self.recorded, self.expected, self.written = [], [], []
        if self.backward is not None:
            self.backward.recorded, self.backward.expected = [], []


def is_repeatable(bindings: Bindings) -> bool:
    """Whether the recorded function gives the same again: it draws and keeps nothing, and what it
    writes is memory from outside that its results do not depend on."""
    drawn = any(isinstance(slot, Drawn) for slot in bindings.slots)
    backward = bindings.backward
    return backward is not None and not (
        drawn or bindings.written_leaves or backward.reads_what_it_writes or bindings.updates
        or bindings.effects or bindings.after or bindings.grads
    )


def number_bumps(bumps: list[tuple[Any, int]], leaves: list[Any]) -> list[tuple[Any, int]]:
    """Version bumps with the numbers of leaves in place of arguments."""
    numbers = {id(leaf._counter): number for number, leaf in enumerate(leaves)
               if isinstance(leaf, Tensor)}
    return [(numbers.get(id(tensor._counter), tensor), writes) for tensor, writes in bumps]


def are_together(a: np.ndarray, b: np.ndarray, gap: int) -> bool:
    """Whether two arrays lie on one memory, so many bytes apart."""
    return (a is b and not gap) or (
        _owner(a) is _owner(b) and address(b) - address(a) == gap
    )


class OuterMemory:
    """Some memories outside of a step's arguments, to tell quickly whether an array lies there."""

    def __init__(self, owners: Sequence[np.ndarray]) -> None:
        self.owners = {id(owner): owner for owner in owners}
        # NumPy does not tell of whose memory a foreign array is a part.
        self.foreign = any(not owner.flags.owndata for owner in owners)

    def holds(self, array: np.ndarray) -> bool:
        """Whether an array shares memory with one of them, as far as bounds can tell."""
        owner = array if array.base is None else _owner(array)
        if id(owner) in self.owners:
            return True
        if owner.flags.owndata and not self.foreign:
            return False
        return any(np.may_share_memory(array, other) for other in self.owners.values())


def kinship(a: Any, b: Any) -> tuple[bool, bool, bool]:
    """How two arguments on one memory are related: one object, one version counter, one base."""
    if a is b:
        return True, True, True
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return False, False, False
    roots = [x if x._base is None else x._base for x in (a, b)]
    return False, a._counter is b._counter is not None, roots[0] is roots[1]


def are_apart(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays certainly share no memory."""
    if a.base is None and b.base is None:
        return a is not b
    return not np.may_share_memory(a, b)


def window_on(memory: np.ndarray, value: Value) -> np.ndarray:
    """The window of a Value on bytes of its storage."""
    return np.ndarray(value.shape, value.dtype, memory, value.offset, value.strides)


def live(storage: Storage, value: Value) -> np.ndarray:
    """The window of a Value on the storage itself."""
    return np.ndarray(value.shape, value.dtype, _as_bytes(storage.owner), value.offset,
                      value.strides)


def _owner(array: np.ndarray) -> np.ndarray:
    from ...tensor.storage import owner_of

    return owner_of(array)
