"""Builder: llvmlite's IRBuilder with loops, vector lanes, masked memory and reductions.

A value is a scalar or a vector of lanes. In registers a BOOL is an i1 and a BF16 the i16 of its
bits; in memory a BOOL is a byte.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import ReduceOp, Type
from .constants import Literal, i64, lane_indices, zero
from .masked_memory import masked_load, masked_store

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
POINTER = ir.PointerType()

# A type's LLVM type in a register, and in memory if different.
REGISTER: dict[Type, ir.Type] = {
    Type.BOOL: I1, Type.U8: I8, Type.I8: I8, Type.I16: I16, Type.I32: I32, Type.I64: I64,
    Type.U32: I32, Type.U64: I64, Type.F16: ir.HalfType(), Type.BF16: I16,
    Type.F32: ir.FloatType(), Type.F64: ir.DoubleType(),
}
MEMORY: dict[Type, ir.Type] = {**REGISTER, Type.BOOL: I8}

TYPE_LETTERS = {"half": "f16", "float": "f32", "double": "f64"}

# Bit patterns of the 16-bit floating-point types.
_HALF_INFINITY, _BFLOAT16_INFINITY, _BFLOAT16_NAN, _SIGN_BIT = 0x7C00, 0x7F80, 0x7FC0, 0x8000


@lru_cache(maxsize=512)
def vector(element: ir.Type, lanes: int) -> ir.Type:
    """Return the vector type of `lanes` lanes, or the element type for one lane."""
    return element if lanes == 1 else ir.VectorType(element, lanes)


def _find_single_lane(mask: ir.Value | None) -> int | None:
    """Return the lane of a constant mask that is true, or None unless there is exactly one."""
    if isinstance(mask, Literal):
        lanes = [lane == "i1 1" for lane in mask.constant[1:-1].split(", ")]
    elif isinstance(mask, ir.Constant) and isinstance(mask.constant, (list, tuple)):
        lanes = [bool(getattr(lane, "constant", lane)) for lane in mask.constant]
    else:
        return None
    return lanes.index(True) if lanes.count(True) == 1 else None


@lru_cache(maxsize=512)
def lane_numbers(lanes: int, element: ir.Type = I64, step: int = 1) -> ir.Value:
    """The constant <0, step, 2 * step, ...>; 0 for one lane."""
    if lanes == 1:
        return ir.Constant(element, 0)
    elements = ", ".join(f"{element} {i * step}" for i in range(lanes))
    return Literal(vector(element, lanes), f"<{elements}>")


@lru_cache(maxsize=64)
def mangle(type: ir.Type) -> str:
    """Return a type as spelled in the names of LLVM intrinsics: v16f32, i64, p0."""
    if isinstance(type, ir.VectorType):
        return f"v{type.count}{mangle(type.element)}"
    if isinstance(type, ir.IntType):
        return f"i{type.width}"
    return "p0" if isinstance(type, ir.PointerType) else TYPE_LETTERS[str(type)]


def lanes_in(type: ir.Type) -> int:
    """Return the number of lanes of an LLVM type: 1 for a scalar."""
    return type.count if isinstance(type, ir.VectorType) else 1


def lanes_of(value: ir.Value) -> int:
    """Return the number of lanes of a value: 1 for a scalar."""
    return lanes_in(value.type)


def constant(type: Type, value: Any) -> ir.Value:
    """Return a scalar constant of a type."""
    if type is Type.BOOL:
        return ir.Constant(I1, int(bool(value)))
    if type in (Type.F32, Type.F64):
        return floating(REGISTER[type], float(value))
    if type is Type.F16:
        return Literal(REGISTER[type], f"0xH{_encode_half(float(value)):04X}")
    if type is Type.BF16:
        return ir.Constant(I16, _encode_bfloat16(float(value)))
    bits = 8 * type.size
    unsigned = int(value) & ((1 << bits) - 1)
    is_negative = unsigned >> (bits - 1)
    return ir.Constant(REGISTER[type], unsigned - (1 << bits) if is_negative else unsigned)


def floating(type: ir.Type, value: float) -> ir.Value:
    """Return a float or double constant, rounded to the type, in LLVM's notation."""
    if isinstance(type, ir.FloatType) and math.isfinite(value):
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = math.copysign(math.inf, value)
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return Literal(type, f"0x{bits:016X}")


def _encode_half(value: float) -> int:
    """Return the bits of a number rounded to float16."""
    try:
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    except OverflowError:
        return _HALF_INFINITY if value > 0 else _SIGN_BIT | _HALF_INFINITY


def _encode_bfloat16(value: float) -> int:
    """Return the bits of a number rounded to bfloat16, ties to even: a float32's upper half."""
    if math.isnan(value):
        return _BFLOAT16_NAN
    try:
        bits = int(struct.unpack("<I", struct.pack("<f", value))[0])
    except OverflowError:
        return _BFLOAT16_INFINITY if value > 0 else _SIGN_BIT | _BFLOAT16_INFINITY
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def vector_constant(constants: Sequence[ir.Value]) -> ir.Value:
    """Return the vector of scalar constants."""
    elements = ", ".join(f"{element.type} {element.get_reference()}" for element in constants)
    return Literal(vector(constants[0].type, len(constants)), f"<{elements}>")


class Module(ir.Module):  # type: ignore[misc]
    """An LLVM module with its vector width in bytes, and whether every operation is rounded."""

    def __init__(self, name: str, vector_bytes: int, exact: bool = False) -> None:
        super().__init__(name)
        self.vector_bytes, self.exact = vector_bytes, exact


@dataclass
class CarryingLoop:
    """A loop's index, and the values that its iterations hand on."""

    index: ir.Value
    values: list[ir.Value]


class VectorBuilder(ir.IRBuilder):  # type: ignore[misc]
    """An IRBuilder with calls, loops and the lanes of vectors."""

    @property
    def vector_bytes(self) -> int:
        """The processor's vector width in bytes."""
        return int(self.module.vector_bytes)

    @property
    def contract(self) -> tuple[str, ...]:
        """The flags of additions and products: whether they may be fused (rounded once)."""
        return () if self.module.exact else ("contract",)

    def integer(self, value: int) -> ir.Value:
        """An i64 constant."""
        return i64(value)

    def intrinsic(
        self,
        name: str,
        result: ir.Type,
        arguments: Sequence[ir.Value],
        flags: Sequence[str] = (),
        overloads: Sequence[ir.Type] | None = None,
    ) -> ir.Value:
        """Call llvm.`name`; `overloads`: the types in its mangled name (default: the result's)."""
        types = (result,) if overloads is None else overloads
        mangled = ".".join(("llvm", name, *map(mangle, types)))
        return self.external(mangled, result, arguments, flags)

    def external(
        self, name: str, result: ir.Type, arguments: Sequence[ir.Value], flags: Sequence[str] = ()
    ) -> ir.Value:
        """Call an external function, declared on first use."""
        function = self.module.globals.get(name)
        if function is None:
            function_type = ir.FunctionType(result, [argument.type for argument in arguments])
            function = ir.Function(self.module, function_type, name)
        return self.call(function, arguments, fastmath=tuple(flags))

    def freeze(self, value: ir.Value) -> ir.Value:
        """Replace poison (an out-of-range conversion) by an arbitrary but fixed number."""
        frozen = ir.instructions.Instruction(self.block, value.type, "freeze", [value])
        self._insert(frozen)
        return frozen

    # ------------------------------------------------------------------------ control

    @contextmanager
    def counted_loop(
        self, start: ir.Value | int, stop: ir.Value | int, step: int = 1, name: str = "i"
    ) -> Iterator[ir.Value]:
        """Emit `for index in range(start, stop, step)` around the body of the with statement.

        The loop may run zero times.
        """
        with self.carrying_loop(start, stop, (), step, name) as loop:
            yield loop.index

    @contextmanager
    def carrying_loop(
        self, start: ir.Value | int, stop: ir.Value | int, values: Sequence[ir.Value],
        step: int = 1, name: str = "i",
    ) -> Iterator[CarryingLoop]:
        """A `counted_loop` whose iterations hand on values: the body reads `loop.values`, and
        replaces them by those of the next iteration. After the loop, they are the last ones.
        """
        known = isinstance(start, int) and isinstance(stop, int)
        if known and start < stop <= start + step:
            yield CarryingLoop(self.integer(start), list(values))
            return
        first, last = (self.integer(n) if isinstance(n, int) else n for n in (start, stop))
        body, after = self.append_basic_block(name), self.append_basic_block(f"{name}.end")
        before = self.block
        if known and start < stop:
            self.branch(body)
        else:
            self.cbranch(self.icmp_signed("<", first, last), body, after)
        self.position_at_end(body)
        index, *phis = (self.phi(type, name) for type in (I64, *[v.type for v in values]))
        loop = CarryingLoop(index, list(phis))
        yield loop
        following = self.add(index, self.integer(step), flags=("nuw", "nsw"))
        end = self.block
        for phi, old, new in zip((index, *phis), (first, *values), (following, *loop.values),
                                 strict=True):
            phi.add_incoming(old, before)
            phi.add_incoming(new, end)
        self.cbranch(self.icmp_signed("<", following, last), body, after)
        self.position_at_end(after)
        if not (known and start < stop):
            loop.values = [self._join(old, before, new, end)
                           for old, new in zip(values, loop.values, strict=True)]

    def _join(
        self, old: ir.Value, before: ir.Block, new: ir.Value, end: ir.Block
    ) -> ir.Value:
        """The value after a loop that may run zero times."""
        phi = self.phi(new.type)
        phi.add_incoming(old, before)
        phi.add_incoming(new, end)
        return phi

    def entry_slot(self, type: ir.Type, count: int = 1, name: str = "slot", align: int = 0) -> Any:
        """Allocate stack memory in the function's entry block."""
        with self.goto_entry_block():
            slot_type = type if count == 1 else ir.ArrayType(type, count)
            slot = self.alloca(slot_type, name=name)
        slot.align = align or None
        slot.type = POINTER
        return slot

    def minimum_of(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """The smaller of two i64."""
        return self.intrinsic("smin", I64, (a, b))

    # -------------------------------------------------------------------------- lanes

    def splat(self, value: ir.Value, lanes: int) -> ir.Value:
        """Broadcast a scalar to all lanes; returns a vector unchanged."""
        if lanes == 1 or isinstance(value.type, ir.VectorType):
            return value
        vector_type = vector(value.type, lanes)
        if isinstance(value, ir.Constant):
            return Literal(vector_type, f"splat ({value.type} {value.get_reference()})")
        poison = Literal(vector_type, "poison")
        first = self.insert_element(poison, value, i64(0))
        return self.shuffle_vector(first, poison, lane_indices((0,) * lanes))

    def slice_lanes(self, value: ir.Value, start: int, lanes: int) -> ir.Value:
        """Return consecutive lanes of a vector; a scalar for one lane."""
        if lanes == 1:
            if not isinstance(value.type, ir.VectorType):
                return value
            return self.extract_element(value, ir.Constant(I64, start))
        chosen = ir.Constant(vector(I32, lanes), list(range(start, start + lanes)))
        return self.shuffle_vector(value, Literal(value.type, "poison"), chosen)

    def pad_lanes(self, value: ir.Value, lanes: int) -> ir.Value:
        """Extend a vector to `lanes` lanes; the new ones are undefined."""
        if not isinstance(value.type, ir.VectorType):
            return self.splat(value, lanes)
        count = lanes_of(value)
        if count == lanes:
            return value
        chosen = ir.Constant(vector(I32, lanes), [*range(count), *[0] * (lanes - count)])
        return self.shuffle_vector(value, Literal(value.type, "poison"), chosen)

    def concatenate(self, parts: Sequence[ir.Value]) -> ir.Value:
        """Concatenate vectors of equal width; their number is a power of two."""
        while len(parts) > 1:
            lanes = lanes_of(parts[0])
            chosen = ir.Constant(vector(I32, 2 * lanes), list(range(2 * lanes)))
            parts = [self.shuffle_vector(a, b, chosen)
                     for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def reverse_lanes(self, value: ir.Value) -> ir.Value:
        """Return the lanes in reverse order."""
        lanes = lanes_of(value)
        if isinstance(value, Literal) and value.constant.startswith("<"):
            elements = ", ".join(reversed(value.constant[1:-1].split(", ")))
            return Literal(value.type, f"<{elements}>")
        chosen = ir.Constant(vector(I32, lanes), list(range(lanes - 1, -1, -1)))
        return self.shuffle_vector(value, Literal(value.type, "poison"), chosen)

    def first_lanes(self, count: ir.Value | int, lanes: int) -> ir.Value:
        """The mask of the first `count` (an i64, at least 0) of the lanes."""
        if isinstance(count, int):
            elements = ", ".join("i1 1" if i < count else "i1 0" for i in range(lanes))
            return Literal(vector(I1, lanes), f"<{elements}>")
        # Bytes (or i16) take one compare for a whole vector, whatever the type of its elements.
        narrow = I8 if lanes <= 64 else I16
        clamped = self.trunc(self.minimum_of(count, self.integer(lanes)), narrow)
        return self.icmp_unsigned("<", lane_numbers(lanes, narrow), self.splat(clamped, lanes))

    def and_masks(self, a: ir.Value | None, b: ir.Value | None) -> ir.Value | None:
        """The conjunction of two masks; None is true everywhere."""
        if a is None or b is None:
            return b if a is None else a
        lanes = max(lanes_of(a), lanes_of(b))
        return self.and_(self.splat(a, lanes), self.splat(b, lanes))


class Builder(VectorBuilder):
    """The builder of kernels: adds masked memory access, tables and reductions over lanes."""

    def read(
        self, pointer: ir.Value, type: Type, lanes: int = 1, mask: ir.Value | None = None
    ) -> ir.Value:
        """Load consecutive elements; lanes where the mask is false are not read and are 0."""
        memory_type = vector(MEMORY[type], lanes)
        if mask is None:
            value = self.load(pointer, typ=memory_type, align=type.size)
        elif lanes == 1:
            safe = self.select(mask, pointer, self.zeros())
            value = self.load(safe, typ=memory_type, align=type.size)
        else:
            value = masked_load(self, pointer, memory_type, type.size, self.splat(mask, lanes))
        return self.from_memory(value, type, lanes)

    def write(
        self, pointer: ir.Value, value: ir.Value, type: Type, mask: ir.Value | None = None
    ) -> None:
        """Store a scalar or consecutive lanes, only where the mask is true."""
        lanes = lanes_of(value)
        value = self.to_memory(value, type, lanes)
        if lanes > 1 and (only := _find_single_lane(mask)) is not None:
            # LLVM for x86 would merge these into one store, too wide if the value was narrowed.
            value, lanes, mask = self.slice_lanes(value, only, 1), 1, None
            pointer = self.offset_elements(pointer, self.integer(only), type) if only else pointer
        if mask is None:
            self.store(value, pointer, align=type.size)
        elif lanes == 1:
            with self.if_then(mask):
                self.store(value, pointer, align=type.size)
        else:
            masked_store(self, value, pointer, type.size, self.splat(mask, lanes))

    def read_every_second(
        self, pointer: ir.Value, type: Type, lanes: int, mask: ir.Value | None = None
    ) -> ir.Value:
        """Load elements 0, 2, 4, ... and nothing beyond the last of them.

        Loads two vectors of consecutive elements; the second begins one element early.
        """
        second_pointer = self.offset_elements(pointer, self.integer(lanes - 1), type)
        masks = (None, None) if mask is None else self._spread_masks(mask, lanes)
        low, high = (self.read(p, type, lanes, m)
                     for p, m in zip((pointer, second_pointer), masks, strict=True))
        half = range(lanes // 2)
        chosen = [*[2 * i for i in half], *[lanes + 2 * i + 1 for i in half]]
        return self.shuffle_vector(low, high, ir.Constant(vector(I32, lanes), chosen))

    def write_every_second(
        self, pointer: ir.Value, value: ir.Value, type: Type, mask: ir.Value | None = None
    ) -> None:
        """Store lanes as elements 0, 2, 4, ...; elements in between keep their values."""
        lanes = lanes_of(value)
        stored = ir.Constant(vector(I1, lanes), [1] * lanes) if mask is None else mask
        poison, half = Literal(value.type, "poison"), lanes // 2
        second_pointer = self.offset_elements(pointer, self.integer(lanes - 1), type)
        halves = ([i // 2 for i in range(lanes)], [half + i // 2 for i in range(lanes)])
        for address, picks, half_mask in zip(
            (pointer, second_pointer), halves, self._spread_masks(self.splat(stored, lanes), lanes),
            strict=True,
        ):
            chosen = ir.Constant(vector(I32, lanes), picks)
            self.write(address, self.shuffle_vector(value, poison, chosen), type, half_mask)

    def _spread_masks(self, mask: ir.Value, lanes: int) -> tuple[ir.Value, ir.Value]:
        """Return masks for a strided access by two vectors: the even elements of the first and
        the odd elements of the second."""
        none, half = ir.Constant(mask.type, None), lanes // 2
        low = [i // 2 if i % 2 == 0 else lanes for i in range(lanes)]
        high = [half + i // 2 if i % 2 else lanes for i in range(lanes)]
        first, second = (self.shuffle_vector(mask, none, ir.Constant(vector(I32, lanes), picks))
                         for picks in (low, high))
        return first, second

    def gather(
        self, pointers: ir.Value, type: Type, lanes: int, mask: ir.Value | None = None
    ) -> ir.Value:
        """Load the elements at a vector of addresses."""
        memory_type = vector(MEMORY[type], lanes)
        lane_mask = self.splat(ir.Constant(I1, 1) if mask is None else mask, lanes)
        arguments = (pointers, ir.Constant(I32, type.size), lane_mask, zero(memory_type))
        overloads = (memory_type, pointers.type)
        value = self.intrinsic("masked.gather", memory_type, arguments, overloads=overloads)
        return self.from_memory(value, type, lanes)

    def scatter(
        self, pointers: ir.Value, value: ir.Value, type: Type, mask: ir.Value | None = None
    ) -> None:
        """Store lanes at a vector of addresses; of equal addresses, the last lane wins."""
        lanes = lanes_of(pointers)
        value = self.to_memory(self.splat(value, lanes), type, lanes)
        lane_mask = self.splat(ir.Constant(I1, 1) if mask is None else mask, lanes)
        arguments = (value, pointers, ir.Constant(I32, type.size), lane_mask)
        overloads = (value.type, pointers.type)
        self.intrinsic("masked.scatter", ir.VoidType(), arguments, overloads=overloads)

    def from_memory(self, value: ir.Value, type: Type, lanes: int) -> ir.Value:
        """Convert a loaded value from its type in memory to its type in registers."""
        if type is not Type.BOOL:
            return value
        return self.icmp_unsigned("!=", value, self.splat(ir.Constant(I8, 0), lanes))

    def to_memory(self, value: ir.Value, type: Type, lanes: int) -> ir.Value:
        """Convert a value from its type in registers to its type in memory."""
        return self.zext(value, vector(I8, lanes)) if type is Type.BOOL else value

    def zeros(self) -> ir.Value:
        """The address of eight zero bytes: what a masked-off scalar load reads."""
        variable = self.module.globals.get("zeros")
        if variable is None:
            variable = ir.GlobalVariable(self.module, I64, "zeros")
            variable.linkage, variable.global_constant = "internal", True
            variable.initializer = ir.Constant(I64, 0)
            variable.type = POINTER
        return variable

    def table(self, constants: Sequence[ir.Value]) -> ir.Value:
        """Return the address of a table of constants."""
        table_type = ir.ArrayType(constants[0].type, len(constants))
        elements = ", ".join(f"{element.type} {element.get_reference()}" for element in constants)
        name = f"table.{hashlib.sha256(elements.encode()).hexdigest()[:16]}"
        variable = self.module.globals.get(name)
        if variable is None:
            variable = ir.GlobalVariable(self.module, table_type, name)
            variable.linkage, variable.global_constant = "internal", True
            variable.initializer = Literal(table_type, f"[{elements}]")
            variable.type = POINTER
        return variable

    def offset_elements(
        self, pointer: ir.Value, offset: ir.Value, type: Type, inbounds: bool = False
    ) -> Any:
        """Return the address `offset` elements further on, or one address for each lane."""
        address = self.gep(pointer, [offset], inbounds=inbounds, source_etype=MEMORY[type])
        if isinstance(offset.type, ir.VectorType):
            address.type = vector(POINTER, offset.type.count)
        return address

    # -------------------------------------------------------------------------- folds

    def reduce(self, fold: ReduceOp, type: Type, lanes: ir.Value) -> ir.Value:
        """Reduce the lanes of a vector to a scalar (not for ARGMAX and ARGMIN)."""
        if lanes_of(lanes) == 1:
            return lanes
        element, name = lanes.type.element, REDUCTIONS[fold]
        if type.floating and name in ("max", "min"):
            return self._reduce_extreme(name, lanes)
        arguments: tuple[ir.Value, ...] = (lanes,)
        flags: tuple[str, ...] = ()
        if type.floating:
            start = -0.0 if fold is ReduceOp.SUM else 1.0
            arguments, flags = (floating(element, start), lanes), ("reassoc",)
            name = f"f{name}"
        elif name in ("max", "min"):
            name = f"{'s' if type.signed else 'u'}{name}"
        return self.reduce_with(name, arguments, flags)

    def reduce_with(
        self, name: str, arguments: Sequence[ir.Value], flags: Sequence[str] = ()
    ) -> ir.Value:
        """Call llvm.vector.reduce.`name` on a vector, the last argument."""
        vector_type = arguments[-1].type
        return self.intrinsic(
            f"vector.reduce.{name}", vector_type.element, arguments, flags, (vector_type,))

    def _reduce_extreme(self, name: str, lanes: ir.Value) -> ir.Value:
        """Return the greatest or least lane, or NaN if any; tests for NaN once, not per step."""
        element = lanes.type.element
        nan = self.reduce_with("or", (self.fcmp_unordered("uno", lanes, lanes),))
        plain = self.reduce_with(f"f{name}", (lanes,), ("nnan", "nsz"))
        return self.select(nan, floating(element, math.nan), plain)


REDUCTIONS = {
    ReduceOp.SUM: "add", ReduceOp.PRODUCT: "mul", ReduceOp.MAXIMUM: "max", ReduceOp.MINIMUM: "min",
    ReduceOp.ANY: "or", ReduceOp.ALL: "and",
}
