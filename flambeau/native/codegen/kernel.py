"""Emit a kernel as LLVM IR text: `void name(i64 tid, i64 threads, ptr cells)`, run on every
thread.

Cells hold the addresses of the kernel's buffers, then the values of its sizes. The entry function
loads them and calls an inner function whose arguments are declared noalias.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ..loop_ir.ir import (
    Contract, Kernel, Loop, LoopKind, Statement, Store, Type, iterate_statements,
)
from ..loop_ir.verify import LOCAL_BYTES
from ..target.machine import Target, host
from . import contraction  # noqa: F401 - adds its emitter to those of statements
from .llvm.builder import I64, MEMORY, POINTER, Builder, Module
from .loops.context import Context, Scope
from .loops.denormals import flush_denormals, needs_flush_to_zero
from .loops.outlining import Outliner
from .loops.parallel_loops import emit_parallel
from .loops.privatized_sums import assign_private_rows, count_private_rows
from .loops.statement import emit_body
from .loops.vectorization import collect_accesses, plan_vectorization


def emit(kernel: Kernel, target: Target | None = None, name: str | None = None) -> str:
    """Return the LLVM IR of a kernel's module; `name` overrides the kernel's name."""
    name = kernel.name if name is None else name
    target = target or host()
    module = Module(name, target.vector_bytes, kernel.exact)

    def define(part: Kernel, function: str) -> ir.Function:
        context = _declare_body(module, part, target, function)
        assign_private_rows(context, part.buffers)
        _emit_outermost(context, part.body, Outliner(part, define))
        return context.builder.function

    inner = define(kernel, f"{name}.body")
    _emit_entry(module, name, inner, needs_flush_to_zero(kernel.body, target),
                count_private_rows(kernel.buffers))
    text = str(module)
    if not target.halves and " half" in text:
        raise NotImplementedError(f"float16 on {target.cpu}, which cannot convert it")
    return text


def _emit_outermost(context: Context, body: Sequence[Statement], repeated: Outliner) -> None:
    """Emit the outermost statements, and the function's end."""
    alone: list[Statement] = []
    for statement in body:
        if not _runs_on_all_threads(statement):
            alone.append(statement)
            continue
        _emit_on_first_thread(context, alone, repeated)
        alone = []
        if statement in repeated:
            repeated.call(context, statement)
        else:
            emit_parallel(context, statement)
    _emit_on_first_thread(context, alone, repeated)
    context.builder.ret_void()


def _runs_on_all_threads(statement: Statement) -> bool:
    return isinstance(statement, Contract) or (
        isinstance(statement, Loop) and statement.kind is LoopKind.PARALLEL
    )


def _declare_body(module: ir.Module, kernel: Kernel, target: Target, name: str) -> Context:
    """Declare the inner function, with a name for each argument."""
    arguments = kernel.buffers
    kinds = [I64, I64, *[POINTER] * len(arguments), *[I64] * len(kernel.sizes)]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    builder = Builder(function.append_basic_block("entry"))
    context = Context(kernel, target, builder, plan_vectorization(kernel, target))
    context.tid, context.threads, *rest = function.args
    for buffer, argument in zip(arguments, rest, strict=False):
        context.pointers[buffer] = argument
        argument.add_attribute("nonnull")
        if not buffer.aliased:
            argument.add_attribute("noalias")
    context.sizes = dict(zip(kernel.sizes, rest[len(arguments) :], strict=True))
    _allocate_locals(context, kernel)
    stored = [s.buffer for s in iterate_statements(kernel.body) if isinstance(s, Store)]
    context.versions.update(dict.fromkeys(stored, 0))
    if any(buffer.aliased for buffer in stored):
        context.versions.update({b: 0 for b in arguments if b.aliased})
    return context


def _allocate_locals(context: Context, kernel: Kernel) -> None:
    accesses = collect_accesses(list(iterate_statements(kernel.body)))
    for buffer in dict.fromkeys(access.buffer for access in accesses):
        if buffer.local is None:
            continue
        if buffer.local * buffer.type.size > LOCAL_BYTES:
            raise ValueError(f"{kernel.name}: local buffer {buffer.name} has more than 64 KB")
        context.pointers[buffer] = context.builder.entry_slot(
            ir.ArrayType(MEMORY[buffer.type], max(buffer.local, 1)), name=buffer.name, align=64
        )


def _emit_entry(
    module: ir.Module, name: str, inner: ir.Function, flush: bool, rows: int | None
) -> None:
    """Emit the entry function, which takes cells. `flush`: treat denormal numbers as zero.

    `rows`: of privatized sums. The work is split into as many shares, and each thread computes
    every `threads`-th of them, so the sums do not depend on the number of threads.
    """
    kind = ir.FunctionType(ir.VoidType(), [I64, I64, POINTER])
    function = ir.Function(module, kind, name)
    b = Builder(function.append_basic_block("entry"))
    tid, threads, cells = function.args
    values = [
        b.load(b.offset_elements(cells, b.integer(i), Type.I64), typ=argument.type, align=8)
        for i, argument in enumerate(inner.args[2:])
    ]
    with flush_denormals(b, flush):
        if rows is None:
            b.call(inner, [tid, threads, *values], tail=not flush)
        else:
            last = b.integer(rows - 1)
            count = b.sdiv(b.add(b.sub(last, tid), threads), threads)
            with b.counted_loop(0, count, name="share") as i:
                share = b.add(tid, b.mul(i, threads))
                b.call(inner, [share, b.integer(rows), *values])
    b.ret_void()


def _emit_on_first_thread(context: Context, body: list[Statement], repeated: Outliner) -> None:
    if not body:
        return
    b, scope = context.builder, Scope()
    with b.if_then(b.icmp_unsigned("==", context.tid, b.integer(0))):
        context.parallel = True
        for statement in body:
            if statement in repeated:
                repeated.call(context, statement)
            else:
                emit_body(context, scope, [statement])
        context.parallel = False
