"""Kernel: an update formula compiled to machine code that runs over many parameters in one call.

The formula is traced once on Symbols; the loop is written in LLVM IR and compiled for this CPU. It
reads the arrays through their Python objects, so that a step stores one address a gradient.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .symbol import Code, Symbol

ELEMENTS = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
START, STOP = 0, 1  # the first columns of a row: which elements; then its arrays, by address
_keep: list[Any] = []  # engines own the machine code, which lives as long as the process


class Kernel:
    """Machine code for one formula; `kernel(table, *scalars)` runs it over the table's rows.

    A row is the first element and the one after the last, then the addresses of the array objects
    of the parameter, its gradient and its states, all contiguous and of the kernel's type.
    """

    def __init__(self, text: str, scalars: int) -> None:
        self.text = text  # the IR, for whoever wants to look
        address = _compile(text)
        kinds = [ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_double] * scalars]
        self.call = ctypes.CFUNCTYPE(None, *kinds)(address)


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
    numbers = scalars(*[Symbol(code, f"%s{k}") for k in range(len(scalars._fields))])
    arrays = range(2 + states)
    symbols = [Symbol(code, f"%x{k}") for k in arrays]
    grad = symbols[1].value
    formula(flags, numbers, symbols[0], symbols[1], *symbols[2:])
    if symbols[1].value != grad:
        raise ValueError(f"{formula.__qualname__} writes to the gradient")
    given = "".join(f", {element} %s{k}" for k in range(len(numbers)))
    body = [
        *(f"  %p{k} = getelementptr inbounds {element}, ptr %a{k}, i64 %i" for k in arrays),
        *(f"  %x{k} = load {element}, ptr %p{k}" for k in arrays),
        *code.lines,
        *(
            f"  store {element} {s.value}, ptr %p{k}"
            for k, s in enumerate(symbols)
            if s.value != f"%x{k}"
        ),
    ]
    return "\n".join([
        *sorted(code.intrinsics),
        f"define internal void @row(i64 %start, i64 %stop"
        f"{''.join(f', ptr noalias %a{k}' for k in arrays)}{given}) {{",
        "entry:",
        "  %empty = icmp sge i64 %start, %stop",
        "  br i1 %empty, label %exit, label %loop",
        "loop:",
        "  %i = phi i64 [ %start, %entry ], [ %next, %loop ]",
        *body,
        "  %next = add nsw i64 %i, 1",
        "  %done = icmp eq i64 %next, %stop",
        "  br i1 %done, label %exit, label %loop",
        "exit:",
        "  ret void",
        "}",
        _driver(len(arrays), len(numbers), element),
    ])  # fmt: skip


def _driver(arrays: int, scalars: int, element: str) -> str:
    """The function `update(table, rows, scalars...)` that calls `row` for each row."""
    columns = 2 + arrays
    cell = itertools.count()

    def load(column: int, into: str) -> list[str]:
        k = next(cell)
        return [
            f"  %c{k} = getelementptr i64, ptr %table, i64 %first",
            f"  %d{k} = getelementptr i64, ptr %c{k}, i64 {column}",
            f"  {into} = load i64, ptr %d{k}",
        ]

    def memory(k: int) -> list[str]:
        return [
            *load(2 + k, f"%o{k}"),
            f"  %q{k} = add i64 %o{k}, {object.__basicsize__}",
            f"  %w{k} = inttoptr i64 %q{k} to ptr",
            f"  %a{k} = load ptr, ptr %w{k}",
        ]

    numbers = range(scalars)
    narrow = "fptrunc double %z{0} to float" if element == "float" else "fadd double %z{0}, -0.0"
    passed = "".join(f", {element} %s{k}" for k in numbers)
    return "\n".join([
        f"define void @update(ptr %table, i64 %rows{''.join(f', double %z{k}' for k in numbers)}) {{",
        "entry:",
        *(f"  %s{k} = {narrow.format(k)}" for k in numbers),
        "  br label %row",
        "row:",
        "  %r = phi i64 [ 0, %entry ], [ %after, %row ]",
        f"  %first = mul i64 %r, {columns}",
        *load(START, "%start"),
        *load(STOP, "%stop"),
        *(line for k in range(arrays) for line in memory(k)),
        f"  call void @row(i64 %start, i64 %stop"
        f"{''.join(f', ptr %a{k}' for k in range(arrays))}{passed})",
        "  %after = add i64 %r, 1",
        "  %done = icmp eq i64 %after, %rows",
        "  br i1 %done, label %exit, label %row",
        "exit:",
        "  ret void",
        "}",
    ])  # fmt: skip


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
