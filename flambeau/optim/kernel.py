"""Kernel: an update formula compiled to machine code that runs over many parameters in one call.

The formula is traced once on Symbols; the loop is written in LLVM IR and compiled for this CPU. It
reads the arrays through their Python objects, so that a step stores one address a gradient.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from .symbol import Code, Number, Symbol

ELEMENTS = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
_keep: list[Any] = []  # engines own the machine code, which lives as long as the process


class Kernel:
    """Machine code for one formula: `call(table.pointer, table.grads_pointer, rows, *scalars)`."""

    def __init__(self, text: str, scalars: int) -> None:
        self.text = text  # the IR, for whoever wants to look
        address = _compile(text)
        kinds = [ctypes.c_void_p] * 2 + [ctypes.c_int64] + [ctypes.c_double] * scalars
        self.call = ctypes.CFUNCTYPE(None, *kinds)(address)


class Table:
    """What a kernel works on: a row for each parameter, and a cell for each gradient.

    A row is the number of elements and the addresses of the array objects of the parameter and of
    its states. Those of the gradients, new at each step, are packed by `pack`.
    """

    def __init__(self, addresses: list[int], tensors: list[Any], columns: int) -> None:
        self.addresses = addresses
        self.arrays = [t._array for t in tensors]  # kept alive: their addresses stand for them
        firsts = range(0, len(tensors), columns)
        self.dtype = self.arrays[0].dtype
        self.fit = [self._fits(self.arrays[k : k + columns]) for k in firsts]
        self.unfit = not all(self.fit)
        if self.unfit:
            return
        self.sizes = [self.arrays[k].size for k in firsts]
        cells = [[self.arrays[k].size, *addresses[k : k + columns]] for k in firsts]
        self.cells = np.array(cells, np.int64)
        self.pointer = self.cells.ctypes.data
        grads = np.zeros(len(cells), np.int64)
        self.grads_pointer = grads.ctypes.data
        self.pack = functools.partial(struct.Struct(f"{len(cells)}q").pack_into, grads, 0)

    def _fits(self, arrays: list[Any]) -> bool:
        """Whether a kernel may run over these: of one type and shape, in order, writable."""
        shape = arrays[0].shape
        return all(
            a.__class__ is np.ndarray and a.dtype == self.dtype and a.shape == shape
            and a.flags.c_contiguous and a.flags.writeable and a.flags.aligned
            for a in arrays
        )  # fmt: skip

    def fit_gradients(self, grads: list[Any]) -> list[np.ndarray] | None:
        """The gradients in order, copied where they are not; None when one is of another kind."""
        dtype = self.dtype
        for k, (grad, size) in enumerate(zip(grads, self.sizes, strict=True)):
            # An unpickled array has a dtype object of its own.
            if grad.dtype is not dtype and grad.dtype != dtype:
                return None
            if grad.size != size or grad.__class__ is not np.ndarray:
                return None
            if not grad.flags.c_contiguous:
                grads[k] = np.ascontiguousarray(grad)
        return grads


@functools.cache
def kernel_for(
    formula: Callable, flags: Any, scalars: type, states: int, dtype: np.dtype
) -> Kernel | None:
    """The kernel of `formula(flags, scalars, param, grad, *states)`.

    None where machine code cannot be made: no llvmlite, or arrays laid out as we do not know them.
    """
    if dtype not in ELEMENTS or not _layout_is_known():
        return None
    text = _written(formula, flags, scalars, states, ELEMENTS[dtype])
    try:
        return Kernel(text, len(scalars._fields))
    except ImportError:
        return None


def _layout_is_known() -> bool:
    """Whether an array object holds the address of its memory right after Python's header."""
    probe = np.zeros(1)
    found = ctypes.c_void_p.from_address(id(probe) + object.__basicsize__).value
    return found == probe.ctypes.data


def _written(formula: Callable, flags: Any, scalars: type, states: int, element: str) -> str:
    """The IR of a module: `row` updates one parameter, `update` all rows of a table."""
    code = Code(element)
    numbers = scalars(*[Number(code, f"%s{k}") for k in range(len(scalars._fields))])
    arrays = range(2 + states)
    symbols = [Symbol(code, f"%x{k}") for k in arrays]
    formula(flags, numbers, *symbols)
    if symbols[1].value != "%x1":
        raise ValueError(f"{formula.__qualname__} writes to the gradient")
    given = "".join(f", double %s{k}" for k in range(len(numbers)))
    changed = [k for k in arrays if symbols[k].value != f"%x{k}"]
    return "\n".join([
        *sorted(code.intrinsics),
        f"define internal void @row(i64 %size"
        f"{''.join(f', ptr noalias %a{k}' for k in arrays)}{given}) {{",
        "entry:",
        "  %empty = icmp eq i64 %size, 0",
        "  br i1 %empty, label %exit, label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *(f"  %p{k} = getelementptr inbounds {element}, ptr %a{k}, i64 %i" for k in arrays),
        *(f"  %x{k} = load {element}, ptr %p{k}" for k in arrays),
        *code.lines,
        *(f"  store {element} {symbols[k].value}, ptr %p{k}" for k in changed),
        "  %next = add nuw nsw i64 %i, 1",
        "  %done = icmp eq i64 %next, %size",
        "  br i1 %done, label %exit, label %loop",
        "exit:",
        "  ret void",
        "}",
        _driver(states, len(numbers)),
    ])  # fmt: skip


def _driver(states: int, scalars: int) -> str:
    """The function `update(table, grads, rows, scalars...)` that calls `row` for each row."""
    columns = 2 + states  # the size, the parameter, the states
    given = "".join(f", double %s{k}" for k in range(scalars))
    cells = [("%param", 1), *((f"%state{k}", 2 + k) for k in range(states))]
    memory = ["%param.data", "%grad.data", *(f"%state{k}.data" for k in range(states))]
    return "\n".join([
        f"define void @update(ptr %table, ptr %grads, i64 %rows{given}) {{",
        "entry:",
        "  br label %row",
        "row:",
        "  %r = phi i64 [ 0, %entry ], [ %after, %row ]",
        f"  %first = mul i64 %r, {columns}",
        "  %cells = getelementptr i64, ptr %table, i64 %first",
        "  %size = load i64, ptr %cells",
        *(line for name, column in cells for line in _data(name, "%cells", str(column))),
        *_data("%grad", "%grads", "%r"),
        f"  call void @row(i64 %size{''.join(f', ptr {m}' for m in memory)}{given})",
        "  %after = add i64 %r, 1",
        "  %done = icmp eq i64 %after, %rows",
        "  br i1 %done, label %exit, label %row",
        "exit:",
        "  ret void",
        "}",
    ])  # fmt: skip


def _data(name: str, cells: str, index: str) -> list[str]:
    """Lines that load into `name.data` the memory of the array object that a cell points to."""
    return [
        f"  {name}.cell = getelementptr i64, ptr {cells}, i64 {index}",
        f"  {name}.object = load i64, ptr {name}.cell",
        f"  {name}.field = add i64 {name}.object, {object.__basicsize__}",
        f"  {name}.at = inttoptr i64 {name}.field to ptr",
        f"  {name}.data = load ptr, ptr {name}.at",
    ]


def _compile(text: str) -> int:
    """The address of `update` in machine code for this CPU."""
    import llvmlite.binding as llvm  # 60 ms, so on first use

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
    )
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _keep.append((engine, module, machine))
    return engine.get_function_address("update")
