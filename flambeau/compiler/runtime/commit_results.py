"""Commit: replace the results of a recorded call by those of its program.

This makes a run's bits independent of how many calls were recorded before the program was ready.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ...tensor.tree import get_leaves
from ..ir.errors import CheckFailed
from ..ir.graph import Graph
from ..trace.bindings import (
    ANY_GRAD, Bindings, RandomInput, ReturnedArgument, NewTensor, Output, ReturnedConstant, Scalar,
    State, list_generators,
)
from ..trace.trace import UPDATE, Event, Trace


def can_commit(graph: Graph, bindings: Bindings, result: Any) -> bool:
    """Whether the program can replace everything that the recorded call wrote or returned."""
    if bindings.backward is not None or not _contains_only_tensors(bindings.result):
        return False
    if not all(isinstance(bindings.slots[slot], State) for slot, _ in graph.writes):
        return False
    outputs = iterate_outputs(result, bindings.result)
    return all(tensor._array.flags.writeable for tensor, _ in outputs)


def commit(bindings: Bindings, result: Any, outputs: Sequence[np.ndarray]) -> None:
    """Copy the program's outputs into the tensors of the recorded call, and set its gradients."""
    for tensor, output in iterate_outputs(result, bindings.result) if outputs else ():
        assert isinstance(output.memory, Output)
        tensor._array[...] = output.memory.array(outputs)
    for leaf, grad in bindings.grads:
        leaf._grad = grad


def run_deferred(
    step: Any, bindings: Bindings, trace: Trace, leaves: list[Any], result: Any
) -> bool:
    """Run a program for a call whose operators were only recorded (capture/lazy_call.py).

    Returns False, without running anything, if the program does not apply to the call.
    """
    arrays = [x._array if isinstance(x, Tensor) else x for x in leaves]
    inputs = {i: a for i, a in enumerate(arrays) if isinstance(a, np.ndarray)}
    if not _has_expected_grads(bindings, trace):
        return False
    if not all(check.test(inputs) for check in bindings.checks):
        return False
    updates = [event for event in trace.events if event.kind == UPDATE]
    values: list[Any] = []
    trace.deferred.pages.finish()
    trace.deferred.leave()
    ran = step.ran[0]
    drawn_before = [(g, g.bookmark()) for g in list_generators(bindings)]
    try:
        for i in step.changing:
            values.append(_read_value(bindings.slots[i], updates, arrays))
        outputs = step.run(values)
    except BaseException as error:
        if step.ran[0] != ran:  # interrupted after the last write
            commit(bindings, None, ())
            trace.deferred.release()
            raise
        for generator, bookmark in drawn_before:
            generator.return_to(bookmark)
        trace.deferred.on = True
        if isinstance(error, CheckFailed):
            return False  # running the operators will raise the error
        trace.compute_deferred()  # the call's Python has run
        raise
    trace.deferred.release()
    commit(bindings, result, outputs)
    if bindings.recorded:
        for i, value in zip(step.changing, values, strict=True):
            bindings.recorded[i] = value
    return True


def _read_value(slot: Any, updates: list[Event], arrays: list[Any]) -> Any:
    """Return an input of the program; random numbers are drawn for it."""
    if isinstance(slot, Scalar):
        return float(updates[slot.update].array[slot.place])  # type: ignore[index]
    if isinstance(slot, RandomInput):
        slot.fill()
        return slot.view
    return slot.array(arrays)


def _has_expected_grads(bindings: Bindings, trace: Trace) -> bool:
    """Whether the leaves had the grads that the program was specialized on."""
    for leaf, before in bindings.incoming_grads:
        access = trace.grads.get(id(leaf))
        if access is None or (access.before is None if before is ANY_GRAD else
                              access.before is not before):
            return False
    return True


def _contains_only_tensors(layout: Any) -> bool:
    """Whether a result consists of tensors; numbers have already been returned to Python."""
    tensors = (NewTensor, ReturnedArgument, ReturnedConstant)
    return all(isinstance(leaf, tensors) for leaf in get_leaves(layout))


def iterate_outputs(result: Any, layout: Any) -> Iterator[tuple[Any, NewTensor]]:
    """Yield (tensor, its NewTensor) for the tensors of a result that are program outputs."""
    for tensor, leaf in zip(get_leaves(result), get_leaves(layout), strict=True):
        while isinstance(leaf, NewTensor):
            if isinstance(leaf.memory, Output):
                yield tensor, leaf
            if not leaf.is_view:
                break
            tensor, leaf = tensor._base, leaf.source
