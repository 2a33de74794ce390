"""Intel's AMX matrix unit: eight tiles of 16 rows by 64 bytes, and products of tiles.

One instruction adds the product of 16 x 32 by 32 x 16 bfloat16 numbers to 16 x 16 float32 sums. A
row of `a` is a row of its tile; a tile row of `b` interleaves two steps of the depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from ...target.amx import DEPTH_PER_TILE, ROW_BYTES, SIDE, TILE_BYTES
from ..llvm.address import ceil_divide, constant, multiply, offset_bytes
from ..llvm.builder import VectorBuilder
from ..llvm.loop import declare_internal
from ..llvm.types import BYTE, I64, POINTER, Number

_A, _B = 4, 6  # the tiles after the four of sums
_ZERO, _LOAD, _STORE = "tilezero", "tileloadd64", "tilestored64"


def _call_intrinsic(b: ir.IRBuilder, name: str, arguments: Sequence[ir.Value]) -> None:
    full = f"llvm.x86.{name}"
    kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    b.call(b.module.globals.get(full) or ir.Function(b.module, kind, full), arguments)


def _tile_number(number: int) -> ir.Value:
    return ir.Constant(BYTE, number)


def _declare_tile_shape(module: ir.Module) -> ir.GlobalVariable:
    """The configuration of all eight tiles at full size, as a constant."""
    variable = module.globals.get("tile_shape")
    if variable is not None:
        return variable
    configuration = [1, *[0] * 15, *[ROW_BYTES, 0] * 8, *[0] * 16, *[SIDE] * 8, *[0] * 8]
    kind = ir.ArrayType(BYTE, len(configuration))
    constant_configuration = ir.GlobalVariable(module, kind, "tile_shape")
    (
        constant_configuration.linkage,
        constant_configuration.global_constant,
        constant_configuration.align,
    ) = "internal", True, 64
    constant_configuration.initializer = ir.Constant(kind, configuration)
    constant_configuration.type = POINTER
    return constant_configuration


@contextmanager
def configured_tiles(b: ir.IRBuilder) -> Iterator[None]:
    """Configure the tiles for the block and release them afterwards, so that the system need not
    save them.
    """
    _call_intrinsic(b, "ldtilecfg", [_declare_tile_shape(b.module)])
    yield
    _call_intrinsic(b, "tilerelease", [])


# Which terms of a and b are multiplied: all pairs that are not negligible, ordered so that one of
# the two stays loaded. The smallest products come first.
_TERM_ORDER = ((0, 2), (0, 1), (1, 1), (1, 0), (2, 0), (0, 0))


def list_term_products(a: int, b: int) -> list[tuple[int, int]]:
    """The products of terms that make up one product of numbers."""
    return [(i, j) for i, j in _TERM_ORDER if i < a and j < b and i + j < max(a, b)]


def declare_multiplier(
    module: ir.Module, rows: int, columns: int, parts: tuple[int, int]
) -> ir.Function:
    """Declare void(a, b, steps, sums, resume): rows x columns tiles (1 or 2) of products of two
    panels.

    A panel has two tiles per term for each step of the depth. `sums` are contiguous rows, continued
    where `resume` is nonzero.
    """
    name = f"tiles_{rows}x{columns}_{parts[0]}{parts[1]}"
    if name in module.globals:
        return module.globals[name]
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, POINTER, I64])
    function = declare_internal(module, name, kind)
    a, other, steps, sums, resume = function.args
    b = VectorBuilder(function.append_basic_block("entry"))
    tiles = _SumTiles(rows, columns, sums)
    with b.if_else(b.icmp_signed("!=", resume, constant(0))) as (more, fresh):
        with more:
            tiles.each(b, _LOAD)
        with fresh:
            tiles.each(b, _ZERO)
    with b.counted_loop(0, steps) as i:
        left = offset_bytes(b, a, multiply(b, i, 2 * TILE_BYTES * parts[0]))
        right = offset_bytes(b, other, multiply(b, i, 2 * TILE_BYTES * parts[1]))
        _emit_step(b, left, right, (rows, columns), list_term_products(*parts))
    tiles.each(b, _STORE)
    b.ret_void()
    return function


class _SumTiles:
    """The locations of the tiles of sums in memory."""

    def __init__(self, rows: int, columns: int, pointer: ir.Value) -> None:
        self.rows, self.columns, self.pointer = rows, columns, pointer

    def each(self, b: ir.IRBuilder, name: str) -> None:
        """Zero, load or store all of them."""
        line = self.columns * ROW_BYTES
        for i in range(self.rows):
            for j in range(self.columns):
                operands = [_tile_number(2 * i + j)]
                if name != _ZERO:
                    pointer = offset_bytes(b, self.pointer, i * SIDE * line + j * ROW_BYTES)
                    operands += [pointer, constant(line)]
                _call_intrinsic(b, name, operands)


def _emit_step(
    b: ir.IRBuilder, left: ir.Value, right: ir.Value, tiles: tuple[int, int],
    order: Sequence[tuple[int, int]],
) -> None:
    """Emit one depth step over all term pairs; a tile is loaded only when it changes."""
    loaded = [-1, -1]
    for pair in order:
        for side, (pointer, first, count) in enumerate(
            ((left, _A, tiles[0]), (right, _B, tiles[1]))
        ):
            if loaded[side] != pair[side]:
                loaded[side] = pair[side]
                for i in range(count):
                    at = offset_bytes(b, pointer, (2 * pair[side] + i) * TILE_BYTES)
                    _call_intrinsic(b, _LOAD, [_tile_number(first + i), at, constant(ROW_BYTES)])
        for i in range(tiles[0]):
            for j in range(tiles[1]):
                operands = [_tile_number(2 * i + j), _tile_number(_A + i), _tile_number(_B + j)]
                _call_intrinsic(b, "tdpbf16ps", operands)


def count_tile_steps(b: ir.IRBuilder, depth: Number) -> Number:
    """Return how many steps cover a depth."""
    return ceil_divide(b, depth, DEPTH_PER_TILE)
