"""Recurrent layers that run all steps in one kernel, compiled for widths that are used often.

A kernel takes any number of steps and rows, a block of rows at a time. Functions return None, and
NumPy computes step by step, until the kernels are compiled and for unsupported cases: steps of
several sizes, projections, weights that do not stay in a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...native.runtime.background_jit import CallCounts, KernelPolicy, request_kernel
from ...native.runtime.fast_call import call_on_threads
from ...native.runtime.thread_pool import threads
from ...native.target.eager_costs import (
    MAX_RECURRENT_FORMS, MAX_THREAD_WEIGHT_BYTES, MIN_PREFETCHED_GATE_BYTES,
    MIN_RECURRENT_MULTIPLICATIONS, MIN_SINGLE_STEP_ROWS, MIN_TANGENT_RECURRENT_MULTIPLICATIONS,
    MIN_THREADED_RECURRENT_MULTIPLICATIONS, RECURRENT_CALLS_BEFORE_COMPILING,
)
from ...tensor.dtypes import FLOATS
from ..native.matmul import try_product
from ..native.route import native_route
from .time_steps import Steps

Array = np.ndarray

_FLAT = frozenset(("panels", "panels_t", "bias", "bias_t"))  # inputs without rows
_STATES = frozenset(("h", "c", "dh", "dc", "h_t", "c_t"))
_BLOCKS = (1, 2, 4, 6, 8, 12, 16)  # rows per block
_calls = CallCounts(MAX_RECURRENT_FORMS, on_small_arrays=False)


@dataclass
class _Runner:
    """The two kernels of a form: one packs the weights into panels, one runs the steps."""

    packing: int  # addresses
    steps: int
    panels: int
    order: list[str]  # the second kernel's arguments
    work: list[int]  # elements of working memory per block, passed as the last arguments
    sizes: list[str]


@dataclass(frozen=True)
class _Form:
    """The parameters that a kernel is compiled for."""

    cell: str
    kind: np.dtype
    rows: int  # per block
    even: bool  # whether all blocks have `rows` rows
    far: bool  # whether the next step's gates are prefetched
    width: int
    descending: bool  # whether steps run from last to first
    threads: int
    inputs: tuple[str, ...]
    wanted: tuple[str, ...]
    walk: str  # "forward", "backward", or "tangent": forward with tangents


_runners: dict[_Form, _Runner] = {}


@dataclass(frozen=True)
class _Call:
    """The amount of work of one call."""

    count: int  # steps
    batch: int
    blocks: int
    workers: int


@native_route
def drop_missing(inputs: dict[str, Array | None]) -> dict[str, Array]:
    """Return the items that are not None."""
    return {name: array for name, array in inputs.items() if array is not None}


@native_route
def compute_input_sums(x: Array, w: Array, bias: Array | None) -> Array:
    """The inputs' contribution to the gates, for all steps."""
    turned = w.T
    result = try_product(x, turned, bias)
    if result is None:
        result = np.dot(x, turned)
        if bias is not None:
            result += bias
    return result


@native_route
def prepare(
    cell: str, steps: Steps, w: Array, inputs: Sequence[str], wanted: Sequence[str],
    walk: str = "forward",
) -> Callable[[dict[str, Array]], dict[str, Array]] | None:
    """What takes all steps of a layer, or None: from what is given to what is wanted, by name (see
    native.kernels.recurrent). Sequences are contiguous rows; `w`: the recurrent weights,
    whose tangent is among the inputs as panels_t. `walk`: as in _Form.
    """
    count, work = len(steps.windows), steps.rows * w.size
    least = MIN_TANGENT_RECURRENT_MULTIPLICATIONS if walk == "tangent" \
        else MIN_RECURRENT_MULTIPLICATIONS
    if work < least or not steps.dense or not KernelPolicy.allowed \
            or w.dtype not in FLOATS:
        return None
    if (count < 2 and steps.batch < MIN_SINGLE_STEP_ROWS) or not w.flags.c_contiguous:
        return None
    if w.nbytes > MAX_THREAD_WEIGHT_BYTES and not _fits_one_kernel(w.nbytes, steps.batch):
        return None
    ascending = count < 2 or steps.windows[0][0] == 0
    batch, rows = steps.batch, _choose_block_rows(steps.batch)
    prefetch = len(w) * w.itemsize >= MIN_PREFETCHED_GATE_BYTES
    form = _Form(cell, w.dtype, rows, batch % rows == 0, prefetch, w.shape[1],
                 ascending == (walk == "backward"), threads(), tuple(inputs), tuple(wanted), walk)
    runner = _find_runner(form)
    if runner is None:
        return None
    blocks = -(-batch // rows)
    is_threaded = work >= MIN_THREADED_RECURRENT_MULTIPLICATIONS
    call = _Call(count, batch, blocks, min(form.threads, blocks) if is_threaded else 1)
    return lambda arrays: _call(runner, form, call, w, arrays)


def _choose_block_rows(batch: int) -> int:
    """Return the rows per block, from a short list so that few kernels serve all batches."""
    from ...native.kernels.recurrent import choose_block_rows

    wanted = choose_block_rows(batch, threads())
    return next((rows for rows in _BLOCKS if rows >= wanted), wanted)


def _fits_one_kernel(size: int, rows: int) -> bool:
    from ...native.kernels.recurrent import fits_one_kernel

    return fits_one_kernel(size, rows, threads())


def _find_runner(form: _Form) -> _Runner | None:
    runner = _runners.get(form)
    use_at = RECURRENT_CALLS_BEFORE_COMPILING + 1
    if runner is None and _calls.should_request(form, use_at, use_at):
        runner = _build_layer(form)
        if runner is not None:
            _runners[form] = runner
    return runner


def _measure_parts(form: _Form) -> dict[str, int]:
    """Return the row length of each sequence, in multiples of the layer's width."""
    from ...native.kernels.recurrent_cells import CELLS

    cell = CELLS[form.cell]
    return {"x": cell.gates, "x_t": cell.gates, "d": cell.gates, "dx": cell.gates, "y": 1,
            "y_t": 1, "gy": 1, "previous": 1, **cell.keeps}


def _build_layer(form: _Form) -> _Runner | None:
    """Return a form's kernels once both are compiled."""
    from ...native.kernels import recurrent
    from ...native.kernels.recurrent_cells import CELLS
    from ...native.kernels.recurrent_tangents import build_forward_with_tangents
    from ...native.loop_ir.ir import Affine, Buffer, Load, Size, Type

    cell, type, width = CELLS[form.cell], Type(form.kind.name), form.width
    parts = _measure_parts(form)

    def grid(name: str, buffer: str) -> Any:
        if name not in parts:
            return recurrent.SequenceLayout(Buffer(type, buffer), width)
        later = Buffer(type, f"{buffer} later") if form.far else None
        return recurrent.SequenceLayout(
            Buffer(type, buffer), parts[name] * width, Size(name), later=later
        )

    inputs = {name: recurrent.SequenceLayout(Buffer(type, name), 0) if name in _FLAT
              else grid(name, name) for name in ("panels", *form.inputs)}
    outputs = {name: [grid(name, f"{name} wanted")] for name in form.wanted}
    weight = recurrent.SequenceLayout(Buffer(type, "w"), width)
    last, batch = (Load(Buffer(Type.I64, name), Affine()) for name in ("last", "batch"))
    extents = recurrent.RecurrentExtents(Size("steps"), width, form.rows, Size("blocks"),
                                         None if form.even else batch, last)
    build = {"forward": recurrent.build_forward, "backward": recurrent.build_backward,
             "tangent": build_forward_with_tangents}[form.walk]
    written = build(cell, type, extents, inputs, outputs)
    packing = request_kernel(("panels", form), lambda: recurrent.pack_weights(
        cell, width, weight, form.walk == "backward"))
    all_steps = request_kernel(("recurrence", form), lambda: written.kernel)
    if packing is None or all_steps is None:
        return None
    return _Runner(
        packing.address, all_steps.address,
        recurrent.count_packed_elements(cell, width, type, form.walk == "backward"),
        [b.name for b in written.kernel.buffers if b not in written.work],
        list(written.work.values()), [size.name for size in written.kernel.sizes],
    )


def _call(
    runner: _Runner, form: _Form, call: _Call, w: Array, inputs: dict[str, Array]
) -> dict[str, Array]:
    """Run the kernels on arrays of rows; return the results."""
    inputs = {**inputs, "panels": w}
    for name in ("panels", "panels_t"):
        if name in inputs:
            panels = np.empty(runner.panels, form.kind)
            call_on_threads(runner.packing, inputs[name], panels, threads=call.workers)
            inputs[name] = panels
    n, width = call.batch, form.width
    columns = {"d": len(w), "dx": len(w), "gates": len(w)}
    result = {
        name: np.empty((n if name in _STATES else n * call.count,
                        columns.get(name, width)), form.kind)
        for name in form.wanted
    }
    sizes = {"steps": call.count, "blocks": call.blocks}
    forth = -1 if form.descending else 1
    sizes.update({name: n * parts * width * forth for name, parts in _measure_parts(form).items()})
    places: dict[str, Any] = {
        "last": np.array([call.count - 1], np.int64),
        "batch": np.array([n], np.int64),
    }
    for name, array in (
        inputs | {f"{name} wanted": array for name, array in result.items()}
    ).items():
        base_name = name.removesuffix(" wanted")
        step = sizes.get(base_name, 0) * array.itemsize
        first = array.__array_interface__["data"][0]
        if step and form.descending:
            first -= step * (call.count - 1)
        if base_name == "previous":
            first += step
        places[name], places[f"{name} later"] = first, first + step
    work = [np.empty(elements * call.blocks, form.kind) for elements in runner.work]
    call_on_threads(runner.steps, *(places[name] for name in runner.order), *work,
                    *(sizes[name] for name in runner.sizes), threads=call.workers)
    return result
