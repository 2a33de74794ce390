"""Graphs that compute as many sizes as possible anew: a trace bakes in only those it must."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from ..export import Dim, ExportedProgram, export
from ..export.symbolic.sizes import SpecializationError
from ..nn.module import Module
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree

__all__ = ["export_for_most_sizes"]

_REFUSALS = (SpecializationError, RuntimeError, IndexError, ValueError)


class _Axis(NamedTuple):
    """An axis of an input; `leaf`: the input's place among the leaves."""

    is_inner: bool
    length: int
    place: int
    leaf: int


def export_for_most_sizes(
    module: Module, inputs: tuple, kwargs: dict[str, Any]
) -> ExportedProgram:
    """Export with the length of every axis dynamic that the program leaves free.

    All axes are tried together, then those of batches, then ever smaller groups of the others.
    """
    bound = dict(inspect.signature(module.forward).bind(*inputs, **kwargs).arguments)
    leaves, spec = pytree.tree_flatten(bound)
    axes = [_Axis(place > 0, n, place, leaf) for leaf, x in enumerate(leaves)
            if isinstance(x, Tensor) and not x.is_nested for place, n in enumerate(x.shape)]

    def attempt(dynamic: list[_Axis]) -> ExportedProgram | None:
        dims: list[Any] = [{} if isinstance(x, Tensor) else None for x in leaves]
        for axis in dynamic:
            dims[axis.leaf][axis.place] = Dim.DYNAMIC
        try:
            return export(module, inputs, kwargs,
                          dynamic_shapes=pytree.tree_unflatten([d or None for d in dims], spec))
        except _REFUSALS:
            return None

    program = attempt(axes) if axes else None
    return program or _Search(attempt, export(module, inputs, kwargs)).run(axes)


class _Search:
    """The largest set of dynamic axes found so far, and its program."""

    def __init__(self, attempt: Callable[[list[_Axis]], ExportedProgram | None],
                 program: ExportedProgram) -> None:
        self._attempt, self._program, self._dynamic = attempt, program, list[_Axis]()

    def run(self, axes: list[_Axis]) -> ExportedProgram:
        """Try halves of a set of axes that cannot all be dynamic."""
        for half in _split(axes):
            program = self._attempt([*self._dynamic, *half])
            if program is not None:
                self._program, self._dynamic = program, [*self._dynamic, *half]
            else:
                self.run(half)
        return self._program


def _split(axes: list[_Axis]) -> list[list[_Axis]]:
    """Halve a set: batches and other axes, then by length, place and input. Axes of equal length
    stay together as long as possible, since programs often require that."""
    for key in range(len(_Axis._fields)):
        values = sorted({axis[key] for axis in axes})
        if len(values) > 1:
            low = values[: len(values) // 2]
            return [[a for a in axes if (a[key] in low) is is_low] for is_low in (True, False)]
    return []
