"""Recurrent layers with all steps in one kernel, made for their shape once it has come up often.

Until a shape's kernels are there, and for what has none (steps of several sizes, projections,
weights that do not stay in a cache), functions give None and NumPy goes step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..native.eager import Policy, kernel_asked_for
from ..native.invoke import shared
from ..native.pool import threads
from ..tensor.dtypes import FLOAT32, FLOAT64
from .matmul_native import large_product
from .recurrent import Steps

Array = np.ndarray

WORTH = 1 << 17  # multiplications of all steps from which on machine code is worth its making
PATIENT = 2  # calls with a shape before its kernels are made
WEIGHT_BYTES = 4 << 20  # of recurrent weights that are always read by each thread at each step
_SHARED = 1 << 20  # multiplications from which on several threads are worth their start
_MOST = 256  # shapes that have kernels
_FLOATS = frozenset((FLOAT32, FLOAT64))
_seen: dict[Hashable, Any] = {}  # by shape: how many calls, then what runs it


@dataclass
class _Runner:
    """The two kernels of a shape: the weights as panels, then the steps."""

    packing: int  # addresses
    steps: int
    panels: int
    blocks: int
    order: list[str]  # of the second kernel's arguments
    work: list[int]  # elements of those of them that are working memory, which come last


@dataclass(frozen=True)
class _Shape:
    """What kernels are made for."""

    cell: str
    kind: np.dtype
    rows: int
    width: int
    descending: bool  # whether steps are taken from the last one on
    threads: int
    given: tuple[str, ...]
    wanted: tuple[str, ...]
    backward: bool


def present(given: dict[str, Array | None]) -> dict[str, Array]:
    """Those that there are."""
    return {name: array for name, array in given.items() if array is not None}


def sums_of_inputs(x: Array, w: Array, bias: Array | None) -> Array:
    """What the inputs of all steps add to the gates."""
    turned = w.T
    made = large_product(x, turned, bias)
    if made is None:
        made = np.dot(x, turned)
        if bias is not None:
            made += bias
    return made


def prepared(
    cell: str, steps: Steps, w: Array, given: Sequence[str], wanted: Sequence[str], backward: bool
) -> Callable[[dict[str, Array]], dict[str, Array]] | None:
    """What takes all steps of a layer, or None: from what is given to what is wanted, by name (see
    native.kernels.recurrent). Sequences are contiguous rows; `w`: the recurrent weights.
    """
    count, work = len(steps.windows), steps.rows * w.size
    if work < WORTH or not steps.dense or not Policy.allowed or w.dtype not in _FLOATS:
        return None
    if (count < 2 and steps.batch < 8) or not w.flags.c_contiguous:
        return None
    if w.nbytes > WEIGHT_BYTES and not _whole(w.nbytes, steps.batch):
        return None
    ascending = count < 2 or steps.windows[0][0] == 0
    shape = _Shape(cell, w.dtype, steps.batch, w.shape[1], ascending == backward, threads(),
                   tuple(given), tuple(wanted), backward)  # fmt: skip
    runner = _runner(shape)
    if runner is None:
        return None
    workers = shape.threads if work >= _SHARED else 1
    return lambda arrays: _called(runner, shape, count, w, arrays, workers)


def _whole(size: int, rows: int) -> bool:
    from ..native.kernels.recurrent import in_one_kernel

    return in_one_kernel(size, rows, threads())


def _runner(shape: _Shape) -> _Runner | None:
    found = _seen.get(shape)
    if isinstance(found, _Runner):
        return found
    if found is None:
        if len(_seen) < _MOST:
            _seen[shape] = 1
        return None
    if found < PATIENT:
        _seen[shape] = found + 1
        return None
    made = _made(shape)
    if made is not None:
        _seen[shape] = made
    return made


def _made(shape: _Shape) -> _Runner | None:
    """The kernels of a shape, when both are there."""
    from ..native.kernels import recurrent
    from ..native.kernels.recurrent_cells import CELLS
    from ..native.loops import Affine, Buffer, Constant, Load, Size, Type

    cell, type, n, width = CELLS[shape.cell], Type(shape.kind.name), shape.rows, shape.width
    rows = recurrent.block_rows(n, shape.threads)
    blocks = -(-n // rows)
    parts = {"x": cell.gates, "d": cell.gates, "dx": cell.gates, "y": 1, "gy": 1, "previous": 1,
             **cell.keeps}  # fmt: skip

    def grid(name: str, buffer: str) -> Any:
        many = parts.get(name, 0) * width
        step = n * many * (-1 if shape.descending else 1)
        return recurrent.Grid(Buffer(type, buffer), many or width, step)

    given = {name: grid(name, name) for name in shape.given}
    if "bias" in given:
        given["bias"] = recurrent.Grid(given["bias"].buffer, 0)
    given["panels"] = recurrent.Grid(Buffer(type, "panels"), 0)
    wanted = {name: [grid(name, f"{name} wanted")] for name in shape.wanted}
    weight = recurrent.Grid(Buffer(type, "w"), width)
    last = Buffer(Type.I64, "last")
    extents = recurrent.Extents(
        Size("steps"), width, rows, blocks,
        None if rows * blocks == n else Constant(Type.I64, n), Load(last, Affine()),
    )  # fmt: skip
    make = recurrent.backward if shape.backward else recurrent.forward
    written = make(cell, type, extents, given, wanted)
    packing = kernel_asked_for(("panels", shape), lambda: recurrent.pack(
        cell, width, weight, shape.backward))  # fmt: skip
    all_steps = kernel_asked_for(("recurrence", shape), lambda: written.kernel)
    if packing is None or all_steps is None:
        return None
    return _Runner(
        packing.address, all_steps.address,
        recurrent.packed_elements(cell, width, type, shape.backward), blocks,
        [b.name for b in written.kernel.buffers if b not in written.work],
        [count * blocks for count in written.work.values()],
    )  # fmt: skip


def _called(
    runner: _Runner, shape: _Shape, count: int, w: Array, given: dict[str, Array], workers: int
) -> dict[str, Array]:
    """Runs the kernels on arrays of rows; gives the results."""
    panels = np.empty(runner.panels, shape.kind)
    workers = min(workers, runner.blocks)
    shared(runner.packing, w, panels, threads=workers)
    n, width = shape.rows, shape.width
    columns = {"d": len(w), "dx": len(w), "gates": len(w)}
    made = {
        name: np.empty((n if name in ("h", "c", "dh", "dc") else n * count,
                        columns.get(name, width)), shape.kind)
        for name in shape.wanted
    }  # fmt: skip
    places: dict[str, Any] = {"panels": panels, "last": np.array([count - 1], np.int64)}
    for name, array in given.items():
        places[name] = _first(array, shape, count, name == "previous")
    for name, array in made.items():
        places[f"{name} wanted"] = _first(array, shape, count, False)
    work = [np.empty(elements, shape.kind) for elements in runner.work]
    shared(runner.steps, *(places[name] for name in runner.order), *work, count, threads=workers)
    return made


def _first(array: Array, shape: _Shape, count: int, later: bool) -> Any:
    """Where a sequence's first step lies of those that are taken, or the one after it."""
    if array.ndim != 2 or len(array) != shape.rows * count or not (shape.descending or later):
        return array
    step = shape.rows * array.strides[0] * (-1 if shape.descending else 1)
    first = -step * (count - 1) if shape.descending else 0
    return array.__array_interface__["data"][0] + first + step * later
