"""JointNode: what a compiled step's outputs hang on, when backward goes through them later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.mode import MODE
from ...autograd.node import Node, Output, raise_freed, raise_stale
from ...autograd.tape import _next_sequence
from ...tensor.storage import owner_of
from ...tensor.tensor import Tensor, wrap
from ..trace.bindings import Argument, BackwardBindings, Cotangent, Kept, State


class CompiledFunctionBackward(Node):
    """The backward program of one call, with what it kept."""

    __slots__ = ("kept", "runner", "seen")

    def apply(self, g: Any) -> list[Tensor]:
        """The cotangents of the inputs."""
        if self.kept is None:
            raise_freed(self)
        for tensor, version in self.seen:
            if tensor._version != version:
                raise_stale(self, tensor._array, tensor._counter, version, "input")
        return self.runner.run(self.kept, g if g.__class__ is tuple else (g,))

    def release(self) -> None:
        """Frees what was kept."""
        self.kept, self.seen = None, ()


class CompiledFunctionBackwardBackward(Node):
    """What cotangents hang on that a backward program gave under create_graph=True."""

    __slots__ = ()

    def apply(self, g: Any) -> Any:
        """Says that there is no second derivative."""
        raise_once()


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


_ONCE = bare(CompiledFunctionBackwardBackward)


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
        self.leaves = sorted({s.leaf for s in self.changing if isinstance(s, Argument)})

    def node(self, outputs: list[np.ndarray], tensors: dict[int, Tensor]) -> Node:
        """The node of a call, from the forward program's outputs and the call's arguments."""
        made = object.__new__(CompiledFunctionBackward)
        made.plan, made.saved, made.versions, made.restore = None, (), (), None
        made.hooks, made.sequence = None, _next_sequence()
        inputs = [tensors[x] if isinstance(x, int) else x for x in self.bindings.inputs]
        made.edges = tuple([x._history() or x for x in inputs])
        made.outputs = self.bindings.outputs
        made.runner, made.kept = self, self.kept(outputs, tensors)
        read = [*self.states, *[tensors[i] for i in self.leaves if isinstance(tensors[i], Tensor)]]
        made.seen = [(t, t._version) for t in read]
        return made

    def kept(self, outputs: list[np.ndarray], tensors: dict[int, Any]) -> list[Any]:
        """The program's values, with the cotangents still to come."""
        found: list[Any] = []
        arrays = {i: getattr(t, "_array", t) for i, t in tensors.items()}
        for slot in self.changing:
            if isinstance(slot, Kept):
                found.append(outputs[slot.number])
            else:
                found.append(slot.array(arrays) if isinstance(slot, Argument) else None)
        return found

    def run(self, kept: list[Any], gs: tuple) -> list[Tensor]:
        """The cotangents of the inputs from those of the outputs."""
        if MODE.grad and any(g is not None and g.requires_grad for g in gs):
            raise_once()
        values = list(kept)
        for i, slot in enumerate(self.changing):
            if isinstance(slot, Cotangent):
                values[i] = self.cotangent(slot, gs[slot.live])
        found = [wrap(y.transpose(order)) for y, order in
                 zip(self.step.run(values), self.bindings.orders, strict=True)]  # fmt: skip
        if MODE.grad:
            for y in found:
                y._node, y._requires_grad, y._tracked = _ONCE, True, True
        return found

    def cotangent(self, slot: Cotangent, g: Tensor | None) -> np.ndarray:
        """A cotangent as the program takes it; zeros where none came."""
        shape, dtype = self.bindings.shapes[slot.live]
        array = np.zeros(shape, dtype) if g is None else np.ascontiguousarray(g._array)
        return array.reshape(slot.order)


def hung(array: np.ndarray, node: Node, k: int) -> Tensor:
    """An output of a compiled step, as part of the graph."""
    made = wrap(array)
    made._node = node if node.outputs == 1 else Output(node, k)
    made._requires_grad = made._tracked = True
    return made
