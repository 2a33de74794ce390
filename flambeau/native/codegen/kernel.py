"""A kernel as LLVM IR text: `void name(i64 tid, i64 threads, ptr cells)`, run on every thread.

Cells are the addresses of the kernel's buffers, then the values of its sizes. The function takes
them out and calls another whose arguments say that buffers do not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from llvmlite import ir

from ..loop_ir.ir import Buffer, Contract, Kernel, Kind, Loop, Statement, Store, Type, statements
from ..target.machine import Target, host
from .llvm.builder import I64, MEMORY, POINTER, Builder, Module
from .loops.context import Context, Scope
from .loops.denormals import flushed, flushes
from .loops.privatized_sums import own_rows
from .loops.vectorization import plan, touched
from .loops.outlining import Repeated
from .loops.statement import emit_body, run
from .loops.transposed_loads import side, turned

LOCAL_BYTES = 64 * 1024  # of scratch on the stack
ENOUGH = 16  # rounds to share out
ROW = 1024  # rounds of a loop over lanes that are worth a round of their own


def emit(kernel: Kernel, target: Target | None = None, name: str | None = None) -> str:
    """LLVM IR of a module with the kernel's function, of the kernel's name if `name` is None."""
    name = kernel.name if name is None else name
    target = target or host()
    module = Module(name, target.vector_bytes, kernel.exact)

    def whole(part: Kernel, function: str) -> ir.Function:
        context = _context(module, part, target, function)
        own_rows(context, part.buffers)
        _sequence(context, part.body, Repeated(part, whole))
        return context.builder.function

    inner = whole(kernel, f"{name}.body")
    _entry(module, name, inner, flushes(kernel.body, target))
    text = str(module)
    if not target.halves and " half" in text:
        raise NotImplementedError(f"float16 on {target.cpu}, which cannot convert it")
    return text


def _sequence(context: Context, body: Sequence[Statement], repeated: Repeated) -> None:
    """Emits the outermost statements, and the function's end."""
    alone: list[Statement] = []
    for statement in body:
        if not _shared(statement):
            alone.append(statement)
            continue
        _on_first_thread(context, alone, repeated)
        alone = []
        if statement in repeated:
            repeated.call(context, statement)
        else:
            share(context, statement)
    _on_first_thread(context, alone, repeated)
    context.builder.ret_void()


def _shared(statement: Statement) -> bool:
    return isinstance(statement, Contract) or (
        isinstance(statement, Loop) and statement.kind is Kind.PARALLEL
    )


def _context(module: ir.Module, kernel: Kernel, target: Target, name: str) -> Context:
    """An inner function, with a name for each argument."""
    arguments = kernel.buffers
    kinds = [I64, I64, *[POINTER] * len(arguments), *[I64] * len(kernel.sizes)]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    builder = Builder(function.append_basic_block("entry"))
    context = Context(kernel, target, builder, plan(kernel, target))
    context.tid, context.threads, *rest = function.args
    for buffer, argument in zip(arguments, rest, strict=False):
        context.pointers[buffer] = argument
        argument.add_attribute("nonnull")
        if not buffer.aliased:
            argument.add_attribute("noalias")
    context.sizes = dict(zip(kernel.sizes, rest[len(arguments) :], strict=True))
    _locals(context, kernel)
    stored = [s.buffer for s in statements(kernel.body) if isinstance(s, Store)]
    context.versions.update(dict.fromkeys(stored, 0))
    if any(buffer.aliased for buffer in stored):
        context.versions.update({b: 0 for b in arguments if b.aliased})
    return context


def _locals(context: Context, kernel: Kernel) -> None:
    places = touched(list(statements(kernel.body)))
    for buffer in dict.fromkeys(one.buffer for one in places):
        if buffer.local is None:
            continue
        if buffer.local * buffer.type.size > LOCAL_BYTES:
            raise ValueError(f"{kernel.name}: local buffer {buffer.name} has more than 64 KB")
        context.pointers[buffer] = context.builder.entry_slot(
            ir.ArrayType(MEMORY[buffer.type], max(buffer.local, 1)), name=buffer.name, align=64
        )


def _entry(module: ir.Module, name: str, inner: ir.Function, flush: bool) -> None:
    """The function that takes cells; `flush`: denormal numbers count as zero in it."""
    kind = ir.FunctionType(ir.VoidType(), [I64, I64, POINTER])
    function = ir.Function(module, kind, name)
    b = Builder(function.append_basic_block("entry"))
    tid, threads, cells = function.args
    values = [
        b.load(b.moved(cells, b.integer(i), Type.I64), typ=argument.type, align=8)
        for i, argument in enumerate(inner.args[2:])
    ]
    with flushed(b, flush):
        b.call(inner, [tid, threads, *values], tail=not flush)
    b.ret_void()


def _on_first_thread(context: Context, body: list[Statement], repeated: Repeated) -> None:
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


def share(context: Context, statement: Statement) -> None:
    """Emits one of the outermost statements, shared out among the threads."""
    if not isinstance(statement, Loop):
        emit_body(context, Scope(), [statement])
        return
    nest = [statement]
    while (
        not _block(context, nest[-1])
        and len(nest[-1].body) == 1
        and isinstance(inner := nest[-1].body[0], Loop)
        and inner.kind is Kind.PARALLEL
    ):
        nest.append(inner)
    if len(nest) > 1 and _block(context, nest[-1]) and many(nest[:-1]):
        nest.pop()
    context.parallel = True
    if len(nest) == 1:
        start, stop = _chunk(context, statement)
        run(context, Scope(), statement, start, stop)
    else:
        _share_nest(context, nest, _block(context, nest[-1]))
    context.parallel = False


def _block(context: Context, loop: Loop) -> int:
    """How many rounds of a loop in lanes or tiles are shared out as one; 0 for other loops."""
    loads = turned(loop, context.plan)
    if loads:
        return side(context, loads)
    return ROW if context.plan.widths.get(loop, 1) > 1 else 0


def many(nest: list[Loop]) -> bool:
    """Whether loops have enough rounds for all threads, as far as is known."""
    extents = [loop.extent for loop in nest if isinstance(loop.extent, int)]
    return len(extents) == len(nest) and prod(extents) >= ENOUGH


def _chunk(context: Context, loop: Loop) -> tuple[ir.Value, ir.Value]:
    """This thread's rounds of a loop: whole cache lines of them where it runs in lanes or tiles."""
    loads = turned(loop, context.plan)
    lanes = side(context, loads) if loads else min(context.plan.widths.get(loop, 1), 16)
    extent = context.extent(loop.extent)
    if lanes == 1:
        return shares(context, extent)
    b = context.builder
    whole = b.sdiv(b.add(extent, b.integer(lanes - 1)), b.integer(lanes))
    start, stop = (b.mul(one, b.integer(lanes)) for one in shares(context, whole))
    return start, b.minimum_of(stop, extent)


def shares(context: Context, count: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Of `count` rounds, this thread's first one and the one after its last."""
    b = context.builder
    start = b.udiv(b.mul(context.tid, count), context.threads)
    following = b.add(context.tid, b.integer(1))
    return start, b.udiv(b.mul(following, count), context.threads)


def _share_nest(context: Context, nest: list[Loop], block: int) -> None:
    """PARALLEL loops directly inside one another: all their rounds are shared out as one.

    With `block`, so many rounds of the last one are taken at a time.
    """
    b = context.builder
    extents = [context.extent(loop.extent) for loop in nest]
    if block:
        whole = b.add(extents[-1], b.integer(block - 1))
        extents[-1] = b.udiv(whole, b.integer(block))
    total = extents[0]
    for extent in extents[1:]:
        total = b.mul(total, extent)
    what = [one for one in _written(nest[0]) if one in context.versions]
    with b.counted(*shares(context, total), name="round") as number:
        found: list[ir.Value] = []
        for extent in reversed(extents[1:]):
            found.insert(0, b.urem(number, extent))
            number = b.udiv(number, extent)
        values = [number, *found]
        context.changed(what)
        if block:
            start = b.mul(values.pop(), b.integer(block))
            limit = b.add(start, b.integer(block))
            stop = b.minimum_of(limit, context.extent(nest[-1].extent))
        known = dict(zip((loop.index for loop in nest), values, strict=False))
        scope = Scope().inside(known)
        if block:
            run(context, scope, nest[-1], start, stop)
        else:
            emit_body(context, scope, nest[-1].body)
    context.changed(what)


def _written(loop: Loop) -> list[Buffer]:
    return [s.buffer for s in statements(loop.body) if isinstance(s, Store)]
