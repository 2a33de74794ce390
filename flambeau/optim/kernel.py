"""Kernel: an update formula as machine code, and the table of parameters that one call updates.

The formula is traced once on Symbols. A table is a program with a record per parameter, whose
elements are divided among threads; each step only writes the gradients' addresses into it.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..native.loop_ir import ir
from ..native.loop_ir.ir import (
    Accumulator, Affine, Begin, Buffer, Index, Load, Loop, LoopKind, ReduceOp, Size, Statement,
    Store, Type,
)
from ..native.runtime.launch_table import LaunchTable, Patch, Record
from ..native.target.eager_costs import MAX_SINGLE_THREAD_ELEMENTS
from .symbol import Number, Symbol

ELEMENTS = {np.dtype(np.float32): Type.F32, np.dtype(np.float64): Type.F64}


@dataclass(frozen=True, eq=False)
class Kernel:
    """Machine code for one formula.

    `scalars` is the number of scalars it takes, `writes` the number of in-place writes of the
    formula to the parameter and to each state.
    """

    address: int
    scalars: int
    writes: tuple[int, ...]


class Table:
    """Parameters and states compiled to a program that runs a kernel on all of them."""

    def __init__(
        self, kernel: Kernel, addresses: list[int], tensors: list[Any], columns: int
    ) -> None:
        self.addresses = addresses
        self.arrays = [t._array for t in tensors]  # kept alive: the program holds their addresses
        starts = range(0, len(tensors), columns)
        self.dtype = self.arrays[0].dtype
        self.fit = [self._fits(self.arrays[k : k + columns]) for k in starts]
        self.unfit = not all(self.fit)
        if self.unfit:
            return
        self.sizes = [self.arrays[k].size for k in starts]
        scalars = np.zeros(max(kernel.scalars, 1))
        self._numbers = scalars.data
        self._pack = struct.Struct(f"{kernel.scalars}d").pack_into
        scalars_address = scalars.ctypes.data
        records = []
        for k, size in zip(starts, self.sizes, strict=True):
            param, *states = [a.ctypes.data for a in self.arrays[k : k + columns]]
            records.append(Record(kernel.address, [param, 0, *states, scalars_address, size], 0))
        patches = [Patch(row, 1, row) for row in range(len(records))]
        self._program = LaunchTable(records, patches, len(records))
        self._threads = 0 if sum(self.sizes) > MAX_SINGLE_THREAD_ELEMENTS else 1

    def _fits(self, arrays: list[Any]) -> bool:
        """Return whether a kernel can run on these: same dtype and shape, contiguous, writable."""
        shape = arrays[0].shape
        return all(
            a.__class__ is np.ndarray and a.dtype == self.dtype and a.shape == shape
            and a.flags.c_contiguous and a.flags.writeable and a.flags.aligned
            for a in arrays
        )

    def fit_gradients(self, grads: list[Any]) -> list[np.ndarray] | None:
        """Return the gradients, made contiguous by copying, or None if one does not fit."""
        dtype = self.dtype
        for k, (grad, size) in enumerate(zip(grads, self.sizes, strict=True)):
            # An unpickled array has a separate dtype object.
            if grad.dtype is not dtype and grad.dtype != dtype:
                return None
            if grad.size != size or grad.__class__ is not np.ndarray:
                return None
            if not grad.flags.c_contiguous:
                grads[k] = np.ascontiguousarray(grad)
        return grads

    def run(self, grads: list[np.ndarray], scalars: Any) -> None:
        """Update all parameters and states."""
        self._pack(self._numbers, 0, *scalars)
        self._program.run(grads, self._threads)


@functools.cache
def get_kernel(
    formula: Callable, flags: Any, scalars: Any, states: int, dtype: np.dtype
) -> Kernel | None:
    """Compile `formula(flags, scalars, param, grad, *states)`. Return None without llvmlite."""
    if dtype not in ELEMENTS:
        return None
    result = trace_formula(formula, flags, scalars, states, ELEMENTS[dtype])
    try:
        from ..native.jit.kernel_function import compile_kernel

        writes = count_writes(formula, flags, scalars, states)
        return Kernel(compile_kernel(result).address, len(scalars._fields), writes)
    except ImportError:
        return None


@functools.cache
def count_writes(
    formula: Callable, flags: Any, scalars: Any, states: int
) -> tuple[int, ...]:
    """Count a formula's in-place writes to the parameter and to each state."""
    element = Affine(0)
    param, grad, *state_symbols = (
        Symbol(Load(Buffer(Type.F32, f"x{k}"), element)) for k in range(2 + states)
    )
    scalar_buffer = Buffer(Type.F64, "numbers")
    scalar_values = [Number(Load(scalar_buffer, Affine(k)), Type.F32)
                     for k in range(len(scalars._fields))]
    formula(flags, scalars(*scalar_values), param, grad, *state_symbols)
    return param.writes, *(state.writes for state in state_symbols)


def trace_formula(
    formula: Callable, flags: Any, scalars: type[Any], states: int, type: Type
) -> ir.Kernel:
    """Trace a formula. Buffers: parameter, gradient, states, scalars (F64). Size: elements."""
    index, size = Index("i"), Size("n")
    element = Affine(0, ((index, 1),))
    names = ["param", "grad", *(f"state{k}" for k in range(states))]
    buffers = [Buffer(type, name) for name in names]
    scalar_buffer = Buffer(Type.F64, "numbers")
    loads = [Load(b, element) for b in buffers]
    symbols = [Symbol(load) for load in loads]
    scalar_values = [Number(Load(scalar_buffer, Affine(k)), type)
                     for k in range(len(scalars._fields))]
    formula(flags, scalars(*scalar_values), *symbols)
    if symbols[1].value is not loads[1]:
        raise ValueError(f"{formula.__qualname__} writes to the gradient")
    begins: list[Statement] = []  # before any store: they read what stores change
    stores: list[Statement] = []
    for buffer, load, symbol in zip(buffers, loads, symbols, strict=True):
        if symbol.value is not load:
            updated = Accumulator(ReduceOp.SUM, type, buffer.name)
            begins.append(Begin(updated, symbol.value))
            stores.append(Store(buffer, element, updated))
    loop = Loop(index, size, [*begins, *stores], LoopKind.PARALLEL)
    return ir.Kernel(formula.__qualname__, [*buffers, scalar_buffer], [loop], [size], True)
