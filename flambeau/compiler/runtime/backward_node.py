"""The autograd node of a compiled call: backward through its outputs runs the backward program."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from ...autograd.backward import partial_grad
from ...autograd.engine import find_needed_edges
from ...autograd.errors.graph_errors import raise_freed, raise_overwritten, raise_stale
from ...autograd.mode import MODE, no_grad
from ...autograd.node import Node
from ...autograd.outputs import Output
from ...autograd.tape import next_sequence
from ...native.foundation.reference_counts import ARGUMENT_REFERENCES
from ...ops import ones_like, zeros_like
from ...tensor.layout import find_owner
from ...tensor.random.generator import Generator
from ...tensor.storage import get_version
from ...tensor.storage import VersionCounter
from ...tensor.tensor import Tensor, wrap
from ...tensor.tree import get_leaves
from ...tensor.windows.batched_window import is_example
from ..capture.saved_versions import SavedVersion
from ..functionalization.partial_backward import select_cotangents
from ..trace.bindings import (
    Argument, BackwardBindings, BackwardPart, Cotangent, SavedForBackward, OuterMemory, State,
)
from ..validation.self_check import agree, compute_max_magnitude
from .commit_results import iterate_outputs

# The counter of an overwritten tensor, its version when saved, what saved it, and the tensor.
_Stale: TypeAlias = "tuple[VersionCounter | None, int, SavedVersion, Tensor | None]"


class CompiledFunctionBackward(Node):
    """The node of one call, with the values that its forward program saved."""

    __slots__ = ("call", "checked_results", "checked_versions", "runner", "saved_values")

    call: tuple[Any, ...] | None  # fields of an EagerCall
    # What eager nodes would have saved: arguments and outside tensors, and counters of results.
    checked_versions: Sequence[tuple[Tensor, int, SavedVersion]]
    checked_results: list[tuple[VersionCounter, int, SavedVersion, weakref.ref[Tensor]]]
    runner: BackwardRunner
    saved_values: list[Any] | None

    def apply(self, g: Any) -> list[Tensor | None]:
        """Compute the cotangents of the inputs; None for those that no given output needs."""
        saved_values = self.saved_values
        if saved_values is None:
            raise_freed(self)
        assert saved_values is not None
        gs = g if g.__class__ is tuple else (g,)
        stale: list[_Stale] = [(tensor._counter, version, saved, tensor)
                               for tensor, version, saved in self.checked_versions
                               if get_version(tensor) != version]
        stale += [(counter, version, saved, reference())
                  for counter, version, saved, reference in self.checked_results
                  if counter.value != version]
        if stale:
            self._refuse(gs, stale)
        if MODE.grad:
            return self.runner.differentiate(self, gs)
        return self.runner.run_backward(saved_values, gs)

    def release(self) -> None:
        """Free the saved values."""
        self.saved_values, self.checked_versions, self.call = None, (), None
        self.checked_results = []

    def _refuse(self, gs: tuple, stale: list[_Stale]) -> None:
        """Raise what the first eager node to run would raise, if one that saved any of the
        overwritten tensors would run at all."""
        outputs = sum(1 << k for k, g in enumerate(gs) if g is not None)
        inputs = sum(1 << i for i, needed in enumerate(find_needed_edges(self.edges)) if needed)
        stale = [item for item in stale if item[2].outputs & outputs and item[2].inputs & inputs]
        if not stale:
            return
        counter, version, saved, tensor = max(stale, key=lambda item: item[2].order)
        producer = saved.producer
        if producer is not None and saved.is_owner and tensor is not None:
            last = tensor.grad_fn  # a write since then gave it a node of its own
            if isinstance(last, CompiledOutput):
                last = last.edges[0].node
            if last is not None and last is not self:
                producer = last.name()
        raise_overwritten(saved.node, saved.shape, saved.dtype, counter, version, producer)


class CompiledOutput(Node):
    """One of several outputs of a compiled call: passes its gradient on to the call's node."""

    __slots__ = ()

    def apply(self, g: Any) -> Sequence[Any]:
        """Return the output's cotangent."""
        return (g,)


@cache
def name_node_class(base: type[Node], name: str) -> type[Node]:
    """Return a subclass of a node's class with the name that `grad_fn` has in eager mode.

    Programs print their results, and errors name the node of an overwritten tensor.
    """
    return type(name, (base,), {"__slots__": ()}) if name else base


def raise_no_double_backward() -> NoReturn:
    """Raise PyTorch's error for a second derivative, with advice."""
    raise RuntimeError(
        "torch.compile with aot_autograd does not currently support double backward: compile the "
        "whole step, with both backward passes inside, or call this one uncompiled"
    )


def make_detached_node(kind: type[Node]) -> Node:
    """Create a node without edges."""
    node = object.__new__(kind)
    node.plan, node.edges, node.saved, node.versions = None, (), None, ()
    node.restore = node.hooks = None
    node.sequence = 0
    return node


class EagerCall(NamedTuple):
    """The arguments of a compiled call, kept to repeat it eagerly for a second derivative.

    drawn: bookmarks of the generators before the call.
    written: the arguments that it wrote.
    before: what it wrote to as it was before, if its results depend on that.
    """

    args: tuple
    kwargs: dict[str, Any]
    inputs: list[Tensor]
    versions: list[tuple[Tensor, int]]  # of tensors read but not in `checked_versions`
    drawn: Sequence[tuple[Any, ...]]
    written: list[Tensor]
    before: list[np.ndarray] | None


class _PartialProgram(NamedTuple):
    """A backward program for some of the outputs' cotangents.

    inputs: (number of the whole graph's source, its Cotangent or None).
    numbers: the whole graph's outputs that it computes.
    """

    step: Any
    inputs: list[tuple[int, Cotangent | None]]
    numbers: list[int]


class BackwardRunner:
    """The backward programs of a step: creates the node of each call and runs for it."""

    def __init__(
        self, step: Any, bindings: BackwardBindings, externals: Sequence[Tensor] = (),
        names: Mapping[int, str] | None = None, build: Callable[[Any], Any] | None = None,
    ) -> None:
        """`step`: the program for the usual outputs. `build` makes those for others.
        `externals`: outside tensors; some lie on memory that the program reads.
        `names`: the names of the outputs' nodes, by live index.
        """
        shown = [(names or {}).get(k, "") for k in range(bindings.outputs)]
        self.node_class = name_node_class(
            CompiledFunctionBackward, shown[0] if len(shown) == 1 else "")
        self.output_classes = [name_node_class(CompiledOutput, name) for name in shown]
        self.bindings, self.build = bindings, build
        self.usual = self._bind(step, bindings.usual)
        self.programs = {bindings.usual_outputs: self.usual}
        states = {id(find_owner(s.array)) for s in bindings.slots if isinstance(s, State)}
        self.states = [t for t in externals if id(find_owner(t._array)) in states]
        self.eager: Callable[..., Any] | None = None  # the function, if it can be called again
        self.result: Any = None
        self.written: list[Tensor] = []  # outside tensors that the step writes
        self.read: list[Tensor] = []  # outside tensors that it reads
        self.written_leaves: list[int] = []  # arguments that it writes
        self.copies_written = False  # whether a second derivative needs what was there before
        self.generators: list[Generator] = []  # from which it draws
        self.externals = list(externals)
        self.leaves = sorted({s.leaf for s in bindings.slots if isinstance(s, Argument)})
        # These must not be written between forward and backward.
        self.saved = [(item, owner.leaf, owner.outside) for item, owner in bindings.saved]

    def allow_double_backward(
        self, function: Callable, result: Any, written: list[np.ndarray],
        leaves: list[int], generators: list[Generator],
    ) -> None:
        """Let second derivatives call the function again.

        result: the layout of its result; written: the outside memory that it writes; leaves: the
        arguments that it writes; generators: those from which it draws.
        """
        self.written_leaves = leaves
        self.generators = generators
        self.result, memory = result, OuterMemory(written)
        self.written = [t for t in self.externals if memory.holds(t._array)]
        self.read = [t for t in self.externals
                     if not memory.holds(t._array) and not any(t is s for s in self.states)]
        takes = {x if isinstance(x, int) else id(x) for x in self.bindings.inputs}
        self.copies_written = self.bindings.reads_what_it_writes
        if len(self.written) == len(written) and not (  # one tensor per memory
            self.copies_written and takes & {*leaves, *map(id, self.written)}
        ):
            self.eager = function

    def copy_written(self, tensors: dict[int, Tensor]) -> list[np.ndarray]:
        """Return copies of what the call is about to write to."""
        written = [*self.written, *[tensors[i] for i in self.written_leaves]]
        return [tensor._array.copy("K") for tensor in written]

    def make_node(
        self, outputs: list[np.ndarray], tensors: dict[int, Tensor], args: tuple = (),
        kwargs: dict[str, Any] | None = None, drawn: Sequence[tuple[Any, ...]] = (),
        before: list[np.ndarray] | None = None,
    ) -> Node:
        """Create the node of a call from the forward program's outputs and the call's tensors.

        `args` and `kwargs` are the whole call, kept for second derivatives with `drawn`, the
        generators' bookmarks before it, and `before`, what it wrote to.
        """
        result: Any = object.__new__(self.node_class)
        result.plan, result.saved, result.versions, result.restore = None, (), (), None
        result.hooks, result.sequence = None, next_sequence()
        inputs = [tensors[x] if isinstance(x, int) else x for x in self.bindings.inputs]
        result.edges = tuple([x._history() or x for x in inputs])
        result.outputs = self.bindings.outputs
        result.runner, result.call = self, None
        result.saved_values = self.collect_inputs(outputs, tensors)
        if self.eager is not None:
            written = [tensors[i] for i in self.written_leaves]
            also = [*self.read, *[t for i, t in tensors.items() if isinstance(t, Tensor)
                                  and i not in self.leaves and i not in self.written_leaves]]
            versions = [(t, get_version(t)) for t in also]
            result.call = args, kwargs or {}, inputs, versions, drawn, written, before
        saved = [(outside if leaf is None else tensors[leaf], item)
                 for item, leaf, outside in self.saved]
        result.checked_versions = [(t, get_version(t), item) for t, item in saved]
        result.checked_results = []
        return result

    def collect_inputs(self, outputs: list[np.ndarray], tensors: dict[int, Any]) -> list[Any]:
        """Return the whole backward graph's inputs; None for cotangents and states."""
        result: list[Any] = []
        arrays: Any = {i: getattr(t, "_array", t) for i, t in tensors.items()}
        for slot in self.bindings.slots:
            if isinstance(slot, SavedForBackward):
                result.append(outputs[slot.number])
            else:
                result.append(slot.array(arrays) if isinstance(slot, Argument) else None)
        return result

    def run_backward(self, saved_values: list[Any], gs: tuple) -> list[Tensor | None]:
        """Run the program for the cotangents that are given; return the inputs' cotangents, None
        where an input does not depend on these outputs."""
        chosen = sum([1 << k for k, g in enumerate(gs) if g is not None])
        program = self.programs.get(chosen)
        if program is None:
            program = self.programs[chosen] = self._build(chosen)
        values = [saved_values[number] if slot is None else self.convert_cotangent(slot, gs)
                  for number, slot in program.inputs]
        result: list[Tensor | None] = [None] * len(self.bindings.inputs)
        for y, number in zip(program.step.run(values), program.numbers, strict=True):
            order = self.bindings.orders[number]
            # A leaf without a grad takes memory of the right order itself, but copies a view.
            array = y if order == tuple(range(y.ndim)) else y.transpose(order)
            if program is not self.usual:
                result[number] = wrap(array)
                continue
            axes = self.bindings.repeats[number]
            result[number] = grad = wrap(_repeat(array, axes) if axes else array)
            if self.bindings.versions[number]:
                grad._bump(self.bindings.versions[number])
        return result

    def _build(self, chosen: int) -> _PartialProgram:
        """Build the program for some of the outputs, when a backward pass first needs it."""
        assert self.build is not None
        part = select_cotangents(self.bindings, chosen)
        return self._bind(self.build(part.graph), part)

    def _bind(self, step: Any, part: BackwardPart) -> _PartialProgram:
        slots = [(number, self.bindings.slots[number]) for number in part.slots]
        return _PartialProgram(step, [
            (number, slot if isinstance(slot, Cotangent) else None)
            for number, slot in slots if not isinstance(slot, State)
        ], part.numbers)

    def differentiate(self, node: CompiledFunctionBackward, gs: tuple) -> list[Tensor | None]:
        """Return the inputs' cotangents as differentiable tensors, by repeating the call eagerly.

        Raises RuntimeError if the call wrote to an input that its results depend on, or if it would
        compute something else now.
        """
        saved_values = node.saved_values
        if node.call is None or saved_values is None:
            raise_no_double_backward()
        assert self.eager is not None
        call = EagerCall(*node.call)
        for tensor, version in call.versions:
            if get_version(tensor) != version:
                raise_stale(node.name(), tensor._array, tensor._counter, version, tensor)
        written, start = [*self.written, *call.written], next_sequence()
        with _swap_memory(written, call.before) as stand_ins, \
                _return_to(self.generators, call.drawn):
            returned = self.eager(*call.args, **call.kwargs)
        _replace_saved(list(get_leaves(returned)), start, stand_ins)
        live = {form.live: tensor for tensor, form in iterate_outputs(returned, self.result)}
        result = _compute_gradients(live, call.inputs, gs)
        if any(g is not None and is_example(g._array) for g in gs):
            # Examples of vmap have no values of their own: the check uses other cotangents.
            ones = tuple([
                None if g is None else ones_like(live[k])  # type: ignore[misc]
                for k, g in enumerate(gs)
            ])
            expected = self.check(_compute_gradients(live, call.inputs, ones), saved_values, ones)
        else:
            expected = self.check(result, saved_values, gs)
        return [
            zeros_like(x) if g is None and y is not None else g  # type: ignore[misc]
            for x, g, y in zip(call.inputs, result, expected, strict=True)
        ]

    def check(
        self, result: list[Tensor | None], saved_values: list[Any], gs: tuple
    ) -> list[Tensor | None]:
        """Return the program's cotangents; RuntimeError unless they agree with the result."""
        with no_grad():
            expected = self.run_backward(saved_values, gs)
        pairs = [(np.zeros_like(y._array) if x is None else x._array, y._array)
                 for x, y in zip(result, expected, strict=True) if y is not None]
        scale = max((compute_max_magnitude(y) for _, y in pairs if y.size), default=0.0)
        if not all(agree(x, y, scale) for x, y in pairs):
            raise RuntimeError(
                "a compiled function cannot be differentiated twice: it has changed since the call"
            )
        return expected

    def convert_cotangent(self, slot: Cotangent, gs: tuple) -> np.ndarray:
        """Return a cotangent in the layout that the program takes."""
        return np.ascontiguousarray(gs[slot.live]._array).reshape(slot.order)


def _repeat(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return an array of the same values that stores one element along some axes, as `expand`
    does."""
    once = array[tuple([slice(1) if axis in axes else slice(None) for axis in range(array.ndim)])]
    once = once.copy()
    strides = [0 if axis in axes else n for axis, n in enumerate(once.strides)]
    return np.lib.stride_tricks.as_strided(once, array.shape, strides)


def _compute_gradients(
    live: dict[Any, Tensor], inputs: list[Tensor], gs: tuple
) -> list[Tensor | None]:
    """Return the inputs' cotangents as differentiable tensors, given those of live outputs."""
    ways = [(live[k], g) for k, g in enumerate(gs) if g is not None]
    return partial_grad([y for y, _ in ways], inputs, [g for _, g in ways], True)


@contextmanager
def _swap_memory(
    tensors: list[Tensor], before: list[np.ndarray] | None
) -> Iterator[dict[int, Tensor]]:
    """Give tensors other memory inside the block, so that writes to them leave no trace: copies of
    theirs, or of what was there before the call. After the block, the yielded dict has tensors on
    that memory, by the id of those without gradients.

    Their temporary version never equals a real one, so graphs that saved them are refused. Raises
    RuntimeError if other tensors share their memory.
    """
    stand_ins: dict[int, Tensor] = {}
    counters = [tensor._counter for tensor in tensors if tensor._counter is not None]
    if not all(isinstance(t, Tensor) and t._base is None for t in tensors) or any(
        sys.getrefcount(counter) > _UNSHARED_COUNTER_REFS for counter in counters
    ):
        raise_no_double_backward()
    previous = [(t, t._array, t._counter) for t in tensors]
    try:
        arrays = [tensor._array for tensor in tensors] if before is None else before
        for tensor, array in zip(tensors, arrays, strict=True):
            tensor._array, tensor._counter = array.copy("K"), VersionCounter()
            tensor._counter.value = _UNREACHABLE_VERSION
        yield stand_ins
    finally:
        for tensor, array, counter in previous:
            if not tensor._requires_grad:
                stand_ins[id(tensor)] = stand_in = wrap(tensor._array)
                stand_in._counter = tensor._counter
            tensor._array, tensor._counter = array, counter


def _replace_saved(results: list[Any], start: int, stand_ins: dict[int, Tensor]) -> None:
    """Replace what the nodes of results, from number `start` on, saved of swapped tensors."""

    def replace(value: Any) -> Any:
        if value.__class__ is tuple:
            return tuple(map(replace, value))
        return stand_ins.get(id(value), value) if isinstance(value, Tensor) else value

    seen: set[int] = set()
    targets = [y._history() for y in results if isinstance(y, Tensor)] if stand_ins else []
    while targets:
        target = targets.pop()
        node = target.node if target.__class__ is Output else target
        if isinstance(node, Node) and node.sequence >= start and id(node) not in seen:
            seen.add(id(node))
            targets.extend(node.edges)
            node.saved = node.saved and replace(node.saved)


@contextmanager
def _return_to(
    generators: list[Generator], bookmarks: Sequence[tuple[Any, ...]]
) -> Iterator[None]:
    """Draw the numbers after the bookmarks again inside the block; leave no trace of it."""
    with ExitStack() as locks:
        for generator in generators:
            locks.enter_context(generator.lock)
        states = [(generator, generator.bookmark()) for generator in generators]
        try:
            for generator, bookmark in zip(generators, bookmarks, strict=True):
                generator.return_to(bookmark)
            yield
        finally:
            for generator, state in states:
                generator.return_to(state)


_UNSHARED_COUNTER_REFS = 3 + ARGUMENT_REFERENCES  # the tensor's, the list's, the loop's
_UNREACHABLE_VERSION = -(1 << 62)


def check_version(tensor: Tensor, node: Node, saved: tuple[SavedVersion, ...]) -> Tensor:
    """Let a backward pass check that a result has not been written to; return the result."""
    assert isinstance(node, CompiledFunctionBackward)
    counter = tensor._counter
    if counter is None:
        tensor._counter = counter = VersionCounter()
    reference = weakref.ref(tensor)
    node.checked_results += [(counter, counter.value, item, reference) for item in saved]
    return tensor


def attach_history(tensor: Tensor, node: Any, k: int) -> Tensor:
    """Attach output `k` of a compiled step to its node, or to one of its own that leads there."""
    if node.outputs == 1:
        tensor._node = node
    else:
        output = tensor._node = make_detached_node(node.runner.output_classes[k])
        output.edges, output.sequence = (Output(node, k),), next_sequence()
    tensor._requires_grad = tensor._tracked = True
    return tensor
