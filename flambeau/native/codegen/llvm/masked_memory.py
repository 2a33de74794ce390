"""Masked loads and stores of consecutive elements, working around bugs of LLVM 20 to 22.

AVX2: LLVM may discover late that a mask is false for one whole register of several; it then reads
that register without the mask, or aborts. AVX-512: if a vector is narrower than an XMM register,
LLVM widens value and mask, and may leave added mask bits true, which touches memory beyond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from .constants import zero
from .intrinsics import declare, suffix

_I32, _I64, _I128 = (ir.IntType(bits) for bits in (32, 64, 128))
_POINTER = ir.PointerType()
_XMM_BYTES, _YMM_BYTES, _ZMM_BYTES = 16, 32, 64
_AVX2 = {"float": ("avx.maskload.ps.256", 4), "double": ("avx.maskload.pd.256", 8),
         "i32": ("avx2.maskload.d.256", 4), "i64": ("avx2.maskload.q.256", 8)}


def masked_load(
    b: ir.IRBuilder, pointer: ir.Value, kind: Any, element_bytes: int, mask: ir.Value
) -> Any:
    """Load a vector of type `kind` from a pointer; zero where the mask is false."""
    if _is_narrow(b, kind, element_bytes, mask):
        return _load_set_lanes(b, pointer, kind, element_bytes, mask)
    name, size = _AVX2.get(str(kind.element), ("", 0))
    several = size * kind.count > _YMM_BYTES
    if several and b.module.vector_bytes == _YMM_BYTES and not isinstance(mask, ir.Constant):
        return _load_by_registers(b, pointer, kind, mask, name, _YMM_BYTES // size)
    function = declare(b, f"llvm.masked.load.{suffix(kind)}.p0", kind,
                       [_POINTER, _I32, mask.type, kind])
    return b.call(function, [pointer, ir.Constant(_I32, element_bytes), mask, zero(kind)])


def masked_store(
    b: ir.IRBuilder, value: ir.Value, pointer: ir.Value, element_bytes: int, mask: ir.Value
) -> None:
    """Write the lanes of a vector for which the mask is true."""
    kind = value.type
    if _is_narrow(b, kind, element_bytes, mask):
        _store_set_lanes(b, value, pointer, element_bytes, mask)
        return
    function = declare(b, f"llvm.masked.store.{suffix(kind)}.p0", ir.VoidType(),
                       [kind, _POINTER, _I32, mask.type])
    b.call(function, [value, pointer, ir.Constant(_I32, element_bytes), mask])


# --------------------------------------------------- AVX-512: vectors narrower than a register


def _is_narrow(b: ir.IRBuilder, kind: Any, element_bytes: int, mask: ir.Value) -> bool:
    """Whether LLVM would widen the vector to a register, and the mask with it."""
    widens = b.module.vector_bytes == _ZMM_BYTES and element_bytes * kind.count < _XMM_BYTES
    return widens and not isinstance(mask, ir.Constant)


def _store_set_lanes(
    b: ir.IRBuilder, value: ir.Value, pointer: ir.Value, element_bytes: int, mask: ir.Value
) -> None:
    packed = _choose_packed_type(value.type, element_bytes)
    lanes = _pack_bits(b, value, packed)
    b.call(
        _define_lane_store(b.module, element_bytes, packed),
        [pointer, lanes, _pack_bits(b, mask, _I32)]
    )


def _load_set_lanes(
    b: ir.IRBuilder, pointer: ir.Value, kind: Any, element_bytes: int, mask: ir.Value
) -> ir.Value:
    packed = _choose_packed_type(kind, element_bytes)
    lanes = b.call(
        _define_lane_load(b.module, element_bytes, packed), [pointer, _pack_bits(b, mask, _I32)]
    )
    bits = kind.count * element_bytes * 8
    return b.bitcast(lanes if bits == packed.width else b.trunc(lanes, ir.IntType(bits)), kind)


def _choose_packed_type(kind: Any, element_bytes: int) -> ir.IntType:
    """Return the integer type that holds a short vector: 64 bits, or 128 if needed."""
    return _I64 if kind.count * element_bytes <= 8 else _I128


def _pack_bits(b: ir.IRBuilder, vector: ir.Value, integer: ir.IntType) -> ir.Value:
    """The bits of a short vector as an integer."""
    kind = vector.type
    element_bits = getattr(kind.element, "width", None) or {"half": 16, "float": 32}[
        str(kind.element)
    ]
    bits = b.bitcast(vector, ir.IntType(kind.count * element_bits))
    return bits if bits.type.width == integer.width else b.zext(bits, integer)


def _define_lane_store(module: ir.Module, element_bytes: int, packed: ir.IntType) -> ir.Function:
    """Return void(ptr, packed lanes, i32 mask): stores each lane whose mask bit is set."""
    name = f"flambeau_store_lanes_{element_bytes}_{packed}"
    element = ir.IntType(element_bytes * 8)

    def store(b: ir.IRBuilder, arguments: Sequence[ir.Value], lane: ir.Value, _: ir.Value) -> None:
        pointer, lanes, _mask = arguments
        bits = b.trunc(b.lshr(lanes, _shift(b, lane, element_bytes, packed)), element)
        b.store(bits, b.gep(pointer, [lane], source_etype=element), align=element_bytes)

    return module.globals.get(name) or _define_lane_loop(
        module, name, ir.FunctionType(ir.VoidType(), [_POINTER, packed, _I32]), store
    )


def _define_lane_load(module: ir.Module, element_bytes: int, packed: ir.IntType) -> ir.Function:
    """Return packed(ptr, i32 mask): loads each lane whose mask bit is set; zero elsewhere."""
    name = f"flambeau_load_lanes_{element_bytes}_{packed}"
    element = ir.IntType(element_bytes * 8)

    def load(
        b: ir.IRBuilder, arguments: Sequence[ir.Value], lane: ir.Value, lanes: ir.Value
    ) -> ir.Value:
        address = b.gep(arguments[0], [lane], source_etype=element)
        bits = b.load(address, typ=element, align=element_bytes)
        widened = b.zext(bits, packed) if element_bytes * 8 < packed.width else bits
        return b.or_(lanes, b.shl(widened, _shift(b, lane, element_bytes, packed)))

    return module.globals.get(name) or _define_lane_loop(
        module, name, ir.FunctionType(packed, [_POINTER, _I32]), load
    )


def _shift(
    b: ir.IRBuilder, lane: ir.Value, element_bytes: int, packed: ir.IntType
) -> ir.Value:
    return b.mul(b.zext(lane, packed), ir.Constant(packed, element_bytes * 8))


def _define_lane_loop(
    module: ir.Module, name: str, kind: ir.FunctionType,
    body: Callable[[ir.IRBuilder, Sequence[ir.Value], ir.Value, ir.Value], ir.Value | None],
) -> ir.Function:
    """Return an internal function that runs `body(b, arguments, lane, result)` for each set lane.

    The mask is the last argument; the result starts at 0 and is replaced by each `body`'s.
    """
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    for attribute in ("noinline", "nounwind"):
        function.attributes.add(attribute)
    entry, loop, done = (function.append_basic_block(part) for part in ("entry", "lane", "done"))
    packed = _I64 if isinstance(kind.return_type, ir.VoidType) else kind.return_type
    none, start = ir.Constant(_I32, 0), ir.Constant(packed, 0)
    b = ir.IRBuilder(entry)
    mask = function.args[-1]
    b.cbranch(b.icmp_unsigned("!=", mask, none), loop, done)
    b.position_at_end(loop)
    remaining, result = b.phi(_I32), b.phi(packed)
    remaining.add_incoming(mask, entry)
    result.add_incoming(start, entry)
    lane = b.cttz(remaining, ir.Constant(ir.IntType(1), 1))
    following = body(b, function.args, lane, result) or start
    rest = b.and_(remaining, b.sub(remaining, ir.Constant(_I32, 1)))
    remaining.add_incoming(rest, loop)
    result.add_incoming(following, loop)
    b.cbranch(b.icmp_unsigned("!=", rest, none), loop, done)
    b.position_at_end(done)
    if isinstance(kind.return_type, ir.VoidType):
        b.ret_void()
        return function
    last = b.phi(packed)
    last.add_incoming(start, entry)
    last.add_incoming(following, loop)
    b.ret(last)
    return function


# ------------------------------------------------------ AVX2: vectors of several registers


def _load_by_registers(
    b: ir.IRBuilder, pointer: ir.Value, kind: Any, mask: ir.Value, name: str, lanes: int
) -> Any:
    """Load each register of a vector with a target-specific intrinsic."""
    part, integers = ir.VectorType(kind.element, lanes), ir.IntType(_YMM_BYTES * 8 // lanes)
    selector = ir.VectorType(integers, lanes)
    function = declare(b, f"llvm.x86.{name}", part, [_POINTER, selector])
    registers = []
    for first in range(0, kind.count, lanes):
        selected = b.sext(_select_lanes(b, mask, range(first, first + lanes)), selector)
        address = b.gep(pointer, [ir.Constant(_I32, first)], source_etype=kind.element)
        registers.append(b.call(function, [address, selected]))
    while len(registers) > 1:
        pairs = zip(registers[::2], registers[1::2], strict=True)
        registers = [_concatenate(b, low, high) for low, high in pairs]
    return registers[0]


def _select_lanes(b: ir.IRBuilder, value: ir.Value, indices: Sequence[int]) -> ir.Value:
    """Some lanes of a vector."""
    chosen = ir.Constant(ir.VectorType(_I32, len(indices)), list(indices))
    return b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), chosen)


def _concatenate(b: ir.IRBuilder, low: ir.Value, high: ir.Value) -> ir.Value:
    count = 2 * low.type.count
    return b.shuffle_vector(low, high, ir.Constant(ir.VectorType(_I32, count), list(range(count))))
