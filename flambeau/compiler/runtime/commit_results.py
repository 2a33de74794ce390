"""Takeover: the call that a program was checked against gets the program's results.

So the bits of a run do not depend on how many calls had to be recorded before there was a program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ..trace.bindings import (
    ANY_GRAD, Bindings, RandomInput, ReturnedArgument, NewTensor, Output, ReturnedConstant, Scalar,
    State,
)
from ..ir.graph import Graph
from ..trace.trace import UPDATE, Trace


def is_possible(graph: Graph, bindings: Bindings, result: Any) -> bool:
    """Whether all that the recorded call left can be replaced by what its program leaves."""
    if bindings.backward is not None or not _is_of_tensors(bindings.result):
        return False
    if not all(isinstance(bindings.slots[slot], State) for slot, _ in graph.writes):
        return False
    return all(tensor._array.flags.writeable for tensor, _ in outputs_of(result, bindings.result))


def take_over(bindings: Bindings, result: Any, outputs: Sequence[np.ndarray]) -> None:
    """Puts the program's outputs into the tensors of the recorded call, and its gradients."""
    for tensor, output in outputs_of(result, bindings.result) if outputs else ():
        assert isinstance(output.memory, Output)
        tensor._array[...] = output.memory.array(outputs)
    for leaf, grad in bindings.grads:
        leaf._grad = grad


def complete(
    step: Any, bindings: Bindings, trace: Trace, leaves: list[Any], result: Any
) -> bool:
    """Gives a recorded call that computed nothing (deferred.py) its values by a program; False,
    with nothing run, where this program is not for it."""
    arrays = [x._array if isinstance(x, Tensor) else x for x in leaves]
    supplied = {i: a for i, a in enumerate(arrays) if isinstance(a, np.ndarray)}
    if not _is_met(bindings, trace) or not all(check.test(supplied) for check in bindings.checks):
        return False
    updates = [event for event in trace.events if event.kind == UPDATE]
    values: list[Any] = []
    trace.deferred.pages.finish()
    trace.deferred.leave()
    ran = step.ran[0]
    try:
        for i in step.changing:
            slot = bindings.slots[i]
            if isinstance(slot, Scalar):
                values.append(float(updates[slot.update].array[slot.place]))  # type: ignore[index]
            elif isinstance(slot, RandomInput):
                slot.fill()
                values.append(slot.view)
            else:
                values.append(slot.array(arrays))
        outputs = step.run(values)
    except BaseException:
        if step.ran[0] == ran:
            trace.deferred.undo()
        else:  # an interrupt that came late
            take_over(bindings, None, ())
        trace.deferred = None
        raise
    trace.deferred = None
    take_over(bindings, result, outputs)
    if bindings.recorded:
        for i, value in zip(step.changing, values, strict=True):
            bindings.recorded[i] = value
    return True


def _is_met(bindings: Bindings, trace: Trace) -> bool:
    """Whether leaves had the grads that the program takes for granted."""
    for leaf, before in bindings.incoming_grads:
        access = trace.grads.get(id(leaf))
        if access is None or (access.before is None if before is ANY_GRAD else
                              access.before is not before):
            return False
    return True


def _is_of_tensors(form: Any) -> bool:
    """Whether tensors are all that a program has to make: numbers were handed out already."""
    if isinstance(form, (tuple, list, dict)):
        return all(map(_is_of_tensors, form.values() if isinstance(form, dict) else form))
    return isinstance(form, (NewTensor, ReturnedArgument, ReturnedConstant))


def outputs_of(made: Any, form: Any) -> Iterator[tuple[Any, NewTensor]]:
    """The tensors of a result that are outputs of the program, by the form of the result."""
    if isinstance(form, NewTensor):
        if isinstance(form.memory, Output):
            yield made, form
        if form.is_view:
            yield from outputs_of(made._base, form.source)
    elif isinstance(form, dict):
        for key, inner in form.items():
            yield from outputs_of(made[key], inner)
    elif isinstance(form, (tuple, list)):
        for item, inner in zip(made, form, strict=True):
            yield from outputs_of(item, inner)
