"""Takeover: the call that a program was checked against gets the program's results.

So the bits of a run do not depend on how many calls had to be recorded before there was a program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .bindings import Bindings, Leaf, Output, Same, Seen, State
from .graph import Graph


def is_possible(graph: Graph, bindings: Bindings, result: Any) -> bool:
    """Whether all that the recorded call left can be replaced by what its program leaves."""
    if bindings.backward is not None or not _is_of_tensors(bindings.result):
        return False
    if not all(isinstance(bindings.slots[slot], State) for slot, _ in graph.writes):
        return False
    return all(tensor._array.flags.writeable for tensor, _ in _outputs(result, bindings.result))


def take_over(bindings: Bindings, result: Any, outputs: Sequence[np.ndarray]) -> None:
    """Puts the program's outputs into the tensors of the recorded call, and its gradients."""
    for tensor, output in _outputs(result, bindings.result):
        tensor._array[...] = outputs[output.number].transpose(output.order)
    for leaf, grad in bindings.grads:
        leaf._grad = grad


def _is_of_tensors(form: Any) -> bool:
    """Whether tensors are all that a program has to make: numbers were handed out already."""
    if isinstance(form, (tuple, list, dict)):
        return all(map(_is_of_tensors, form.values() if isinstance(form, dict) else form))
    return isinstance(form, (Output, Leaf, Same, Seen))


def _outputs(made: Any, form: Any) -> Iterator[tuple[Any, Output]]:
    """The tensors of a result that are outputs of the program, by the form of the result."""
    if isinstance(form, Output):
        yield made, form
    elif isinstance(form, dict):
        for key, inner in form.items():
            yield from _outputs(made[key], inner)
    elif isinstance(form, (tuple, list)):
        for one, inner in zip(made, form, strict=True):
            yield from _outputs(one, inner)
