"""JointNode: what a compiled step's outputs hang on, when backward goes through them later."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ...autograd.backward import partial_grad
from ...autograd.mode import MODE, no_grad
from ...autograd.node import Node, Output, raise_freed, raise_stale
from ...autograd.tape import _next_sequence
from ...tensor.storage import VersionCounter, owner_of
from ...tensor.tensor import Tensor, wrap
from ...ops import zeros_like
from ..trace.bindings import (
    Argument, BackwardBindings, Cotangent, SavedForBackward, OuterMemory, State,
)
from ..validation.self_check import agree, max_magnitude
from .commit_results import outputs_of


class CompiledFunctionBackward(Node):
    """The backward program of one call, with what it kept."""

    __slots__ = ("call", "kept", "runner", "seen")

    def apply(self, g: Any) -> list[Tensor]:
        """The cotangents of the inputs."""
        if self.kept is None:
            raise_freed(self)
        for tensor, version in self.seen:
            if tensor._version != version:
                raise_stale(self.name(), tensor._array, tensor._counter, version, tensor)
        gs = g if g.__class__ is tuple else (g,)
        if MODE.grad:
            return self.runner.differentiate(self, gs)
        return self.runner.run(self.kept, gs)

    def release(self) -> None:
        """Frees what was kept."""
        self.kept, self.seen, self.call = None, (), None


def raise_once() -> None:
    """What PyTorch says, and what to do."""
    raise RuntimeError(
        "torch.compile with aot_autograd does not currently support double backward: compile the "
        "whole step, with both backward passes inside, or call this one uncompiled"
    )


def bare(kind: type[Node]) -> Node:
    """A node that leads nowhere."""
    node = object.__new__(kind)
    node.plan, node.edges, node.saved, node.versions = None, (), None, ()
    node.restore = node.hooks = None
    node.sequence = 0
    return node


class EagerCall(NamedTuple):
    """A call of a compiled function, to be differentiated by autograd itself."""

    args: tuple
    kwargs: dict[str, Any]
    inputs: list[Tensor]
    versions: list[tuple[Tensor, int]]  # of what it reads besides `seen`, as the call left it


class Runner:
    """A backward program: makes the node of each call, and runs for it."""

    def __init__(
        self, step: Any, bindings: BackwardBindings, externals: Sequence[Tensor] = ()
    ) -> None:
        """`externals`: tensors outside, of which some lie on the memory that the program reads."""
        self.step, self.bindings = step, bindings
        self.changing = [s for s in bindings.slots if not isinstance(s, State)]
        states = {id(owner_of(s.array)) for s in bindings.slots if isinstance(s, State)}
        # Both must not be written between forward and backward.
        self.states = [t for t in externals if id(owner_of(t._array)) in states]
        self.eager: Callable | None = None  # the function, where it gives the same again
        self.result: Any = None
        self.written: list[Tensor] = []  # memory from outside that it writes
        self.read: list[Tensor] = []  # and that it reads
        self.externals = list(externals)
        self.leaves = sorted({s.leaf for s in self.changing if isinstance(s, Argument)})

    def repeat(self, function: Callable, result: Any, written: list[np.ndarray]) -> None:
        """Lets second derivatives call the function again; `result` is the form of what it gives,
        `written` is the memory from outside that it writes."""
        self.result, memory = result, OuterMemory(written)
        self.written = [t for t in self.externals if memory.holds(t._array)]
        self.read = [t for t in self.externals
                     if not memory.holds(t._array) and not any(t is s for s in self.states)]
        if len(self.written) == len(written):  # one tensor on each memory
            self.eager = function

    def node(
        self, outputs: list[np.ndarray], tensors: dict[int, Tensor], args: tuple = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Node:
        """The node of a call, from the forward program's outputs and the call's arguments.

        `args` and `kwargs` are all that it was called with, to differentiate it twice.
        """
        result = object.__new__(CompiledFunctionBackward)
        result.plan, result.saved, result.versions, result.restore = None, (), (), None
        result.hooks, result.sequence = None, _next_sequence()
        inputs = [tensors[x] if isinstance(x, int) else x for x in self.bindings.inputs]
        result.edges = tuple([x._history() or x for x in inputs])
        result.outputs = self.bindings.outputs
        result.runner, result.kept, result.call = self, self.kept(outputs, tensors), None
        if self.eager is not None:
            also = [*self.read, *[t for i, t in tensors.items()
                                  if i not in self.leaves and isinstance(t, Tensor)]]
            result.call = args, kwargs or {}, inputs, [(t, t._version) for t in also]
        read = [*self.states, *[tensors[i] for i in self.leaves if isinstance(tensors[i], Tensor)]]
        result.seen = [(t, t._version) for t in read]
        return result

    def kept(self, outputs: list[np.ndarray], tensors: dict[int, Any]) -> list[Any]:
        """The program's values, with the cotangents still to come."""
        result: list[Any] = []
        arrays = {i: getattr(t, "_array", t) for i, t in tensors.items()}
        for slot in self.changing:
            if isinstance(slot, SavedForBackward):
                result.append(outputs[slot.number])
            else:
                result.append(slot.array(arrays) if isinstance(slot, Argument) else None)
        return result

    def run(self, kept: list[Any], gs: tuple) -> list[Tensor]:
        """The cotangents of the inputs from those of the outputs."""
        values = list(kept)
        for i, slot in enumerate(self.changing):
            if isinstance(slot, Cotangent):
                values[i] = self.cotangent(slot, gs[slot.live])
        outputs = self.step.run(values)
        return [wrap(y.transpose(order))
                for y, order in zip(outputs, self.bindings.orders, strict=True)]

    def differentiate(self, node: CompiledFunctionBackward, gs: tuple) -> list[Tensor]:
        """The cotangents of the inputs, as part of a graph: the call again, as operators.

        RuntimeError where the call wrote or drew something, which must not happen twice, and where
        it would compute something else now.
        """
        if node.call is None:
            raise_once()
        assert self.eager is not None
        call = EagerCall(*node.call)
        for tensor, version in call.versions:
            if tensor._version != version:
                raise_stale(node.name(), tensor._array, tensor._counter, version, tensor)
        with _set_aside(self.written):
            returned = self.eager(*call.args, **call.kwargs)
        live = {form.live: tensor for tensor, form in outputs_of(returned, self.result)}
        ways = [(live[k], g) for k, g in enumerate(gs) if g is not None]
        result = partial_grad([y for y, _ in ways], call.inputs, [g for _, g in ways], True)
        result = [
            zeros_like(x) if g is None else g for x, g in zip(call.inputs, result, strict=True)
        ]
        with no_grad():
            expected = self.run(node.kept, gs)
        scale = max((max_magnitude(y._array) for y in expected if y._array.size), default=0.0)
        if not all(agree(x._array, y._array, scale) for x, y in zip(result, expected, strict=True)):
            raise RuntimeError(
                "a compiled function cannot be differentiated twice: what it computes has changed "
                "since it was called"
            )
        return result

    def cotangent(self, slot: Cotangent, g: Tensor | None) -> np.ndarray:
        """A cotangent as the program takes it; zeros where none came."""
        shape, dtype = self.bindings.shapes[slot.live]
        array = np.zeros(shape, dtype) if g is None else np.ascontiguousarray(g._array)
        return array.reshape(slot.order)


@contextmanager
def _set_aside(tensors: list[Tensor]) -> Iterator[None]:
    """Lends tensors other memory, so that writes to them leave nothing.

    The counter that they get meanwhile never agrees with their own: a graph that reads them later
    is refused. RuntimeError where other tensors share their memory.
    """
    counters = [tensor._counter for tensor in tensors if tensor._counter is not None]
    if any(t._base is not None for t in tensors) or any(
        sys.getrefcount(counter) > _ALONE for counter in counters
    ):
        raise_once()
    own = [(t, t._array, t._counter) for t in tensors]
    try:
        for tensor in tensors:
            tensor._array, tensor._counter = tensor._array.copy("K"), VersionCounter()
            tensor._counter.value = _NEVER
        yield
    finally:
        for tensor, array, counter in own:
            tensor._array, tensor._counter = array, counter


_ALONE = 4  # references to a version counter: the tensor's, and three of who counts them
_NEVER = -(1 << 62)  # a version that no tensor has


def hang(tensor: Tensor, node: Node, k: int) -> Tensor:
    """Makes an output of a compiled step part of the graph."""
    tensor._node = node if node.outputs == 1 else Output(node, k)
    tensor._requires_grad = tensor._tracked = True
    return tensor
