"""Loops over a vmap's examples, for operators without a rule and functions that read elements.

A loop over a whole function is one node on the tape inside the vmap; its derivative is also a loop,
over the function's derivative for each example.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...autograd import grad as autograd_grad
from ...autograd.backward import require_gradients
from ...autograd.mode import MODE, enable_grad
from ...autograd.node import Node
from ...autograd.outputs import Output
from ...autograd.saved.plan import Plan
from ...autograd.tangents import get_primal, give, tangents_of
from ...autograd.tape import create_node, requires
from ...native.foundation.user_frames import warn
from ...tensor.tensor import Tensor
from ...tensor.tree import get_leaves, map_leaves
from ...tensor.windows.batch import Batch, find_innermost_batch
from ...tensor.windows.batched_window import ExampleRead
from ..core.operator import OPERATORS


class Warnings:
    """Whether to warn about loops."""

    enabled = False


def loop(function: Callable, batch: Batch, args: Any, name: str) -> Any:
    """Call function(*args) per example; return the results stacked, batch axis first."""
    if Warnings.enabled:
        warn(f"There is a performance drop because we have not yet implemented the batching rule "
             f"for aten::{name.strip('_')}. Please file us an issue on GitHub so that we can "
             "prioritize its implementation.", UserWarning)
    return _stack(batch, [function(*_choose(batch, i, args)) for i in range(batch.size or 1)])


def _choose(batch: Batch, i: int, args: Any) -> Any:
    """Return the arguments of example `i`; zeros if the batch is empty."""

    def choose(value: Any) -> Any:
        below = batch.lower(value)
        if below is value:
            return value
        if not batch.holds(value):
            below = below.view_as(below)
        else:
            below = below.select(0, i) if batch.size else below.new_zeros(below.shape[1:])
        tangents = {n: (None, choose(t)) for n, (_, t) in tangents_of(value).items()}
        return give({**tangents_of(below), **tangents}, below)

    return map_leaves(choose, args)


def _as_example(batch: Batch, y: Tensor) -> Tensor:
    """Wrap a tensor below as an example, moving along the tangents of levels inside the vmap."""
    tangents = {n: t for n, (_, t) in tangents_of(y).items() if n > batch.outer_level}
    for level in tangents:
        y = get_primal(y, level)
    return give({n: (None, _as_example(batch, t)) for n, t in tangents.items()}, batch.wrap(y))


def _stack(batch: Batch, results: list[Any]) -> Any:
    first = results[0]
    if isinstance(first, Tensor):
        if not batch.size:
            return first.new_zeros((0, *first.shape))
        return OPERATORS["stack"].function(results)
    if isinstance(first, (tuple, list)):
        parts = [_stack(batch, list(column)) for column in zip(*results, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    if any(y != first for y in results[1:]):
        raise ExampleRead("vmap: a function gives a number or a structure that differs from "
                          "example to example")
    return first


def loop_recorded(function: Callable, batch: Batch, args: Any, name: str) -> Any:
    """Like `loop`, but return examples with a history inside the vmap."""
    result = map_leaves(lambda y: _as_example(batch, y) if isinstance(y, Tensor) else y,
                        loop(function, batch, args, name))
    inputs = [x for x in get_leaves(args) if isinstance(x, Tensor) and x._tracked
              and find_innermost_batch((x,)) is batch and requires(x)]
    outputs = [y for y in get_leaves(result) if isinstance(y, Tensor)]
    if not MODE.grad or not inputs or not any(y._array.dtype.kind in "fcV" for y in outputs):
        return result
    node = create_node(_PLAN, tuple([x._node or x for x in inputs]), (), (), None)
    node.function, node.batch, node.args, node.inputs = function, batch, args, inputs
    node.outputs, node.loop_name = len(outputs), name
    for i, y in enumerate(outputs):
        if y._array.dtype.kind in "fcV":
            y._node = node if len(outputs) == 1 else Output(node, i)
            y._requires_grad = y._tracked = True
    return result


class LoopBackward(Node):
    """The history of a loop's results."""

    __slots__ = ("args", "batch", "function", "inputs", "loop_name")
    function: Callable
    batch: Batch
    args: Any
    inputs: list[Tensor]
    loop_name: str

    def apply(self, g: Any) -> Sequence[Any]:
        """Return the cotangents of the inputs, by a loop over the derivative per example."""
        cotangents = list(g) if isinstance(g, tuple) else [g]
        supplied = [k for k, c in enumerate(cotangents) if c is not None]
        chosen = {id(x) for x in self.inputs}
        marks = [id(x) in chosen for x in get_leaves(self.args)]
        pull = _pull(self.function, marks, supplied, self.loop_name.endswith("_"))
        return loop_recorded(pull, self.batch, (self.args, [cotangents[k] for k in supplied]),
                             self.loop_name)


_PLAN: Plan[LoopBackward] = Plan(LoopBackward, (), (), (), False)


def _pull(function: Callable, marks: list[bool], supplied: list[int], writes: bool) -> Callable:
    """Return the function's derivative for one example, by its marked arguments, to which it
    perhaps `writes`."""

    def pull(args: Any, cotangents: list[Tensor]) -> list[Tensor]:
        inputs: list[Tensor] = []
        marked = iter(marks)

        def alias(x: Any) -> Any:
            if not next(marked):
                return x
            inputs.append(x.view_as(x) if x.requires_grad else require_gradients(x.detach()))
            return inputs[-1].clone() if writes else inputs[-1]

        with_grad = MODE.grad
        with enable_grad():
            result = get_leaves(function(*map_leaves(alias, args)))
            ys = [y for y in result if isinstance(y, Tensor)]
            pairs = [(ys[k], g) for k, g in zip(supplied, cotangents, strict=True)
                     if ys[k].requires_grad]
            if not pairs:
                return [x.new_zeros(x.shape) for x in inputs]
            grads = autograd_grad([y for y, _ in pairs], inputs, [g for _, g in pairs],
                                  create_graph=with_grad, allow_unused=True)
        return [x.new_zeros(x.shape) if d is None else d
                for x, d in zip(inputs, grads, strict=True)]

    return pull
