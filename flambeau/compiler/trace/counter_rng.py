"""Random numbers of a counter: `options={"random": "counter"}`.

A number is a function of a key, which each run draws once from the eager generator, of the draw's
place in the step, and of the element's in memory (Philox-4x32-10). So kernels make it where they
use it, and forward and backward both, without memory for it. Recorded calls draw these numbers too.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...native.loop_ir.ir import Scalar, Type
from ...tensor.random.generator import Generator, default_generator
from ..ir.axis_order import memory_order
from ..ir.interpreter import evaluate, numpy_type, type_of
from ..ir.graph import Graph, Node, Op, apply, cast, constant, reshape

_HALVES = (Type.F16, Type.BF16)


def draw_key(buffer: np.ndarray, generator: Generator) -> None:
    """Fills a buffer with a run's key: 64 bits of the generator."""
    words = generator.words(2).tolist()
    buffer[...] = words[0] << 32 | words[1]


@dataclass(frozen=True)
class Counted:
    """A draw: the function of sampling.py that it stands for, its place in the step, numbers."""

    name: str
    stream: int
    numbers: tuple[float, ...]

    @property
    def __name__(self) -> str:
        return self.name

    def node(self, shape: tuple[int, ...], dtype: np.dtype, key: Node) -> Node:
        """The elements, in the order of memory; `key`: U64, of rank 0."""
        type = type_of(dtype)
        index = Node(Op.IOTA, (), (math.prod(shape),), Type.I64, {"axis": 0})
        place = cast(reshape(index, shape), Type.U64)
        wide = Type.F32 if type in _HALVES else type
        draw = _Bits(place, constant(self.stream, Type.U64), key)
        return cast(FORMULAS[self.name](draw, wide, type, *self.numbers), type)

    def fill(self, array: np.ndarray, key: int) -> None:
        """The same numbers in an array, of any strides."""
        order = memory_order(array.strides)
        target = array.transpose(order)
        node = self.node(target.shape, array.dtype, constant(key, Type.U64))
        target[...] = evaluate(Graph([], [], [node], []), [])[0][0]


def counted(original: Callable, args: tuple, kwargs: dict[str, Any], stream: int
            ) -> tuple[Counted, Generator] | None:
    """A draw as a counted one, and its generator; None where there is none for it."""
    if original.__name__ not in FORMULAS:
        return None
    supplied = inspect.signature(original).bind(*args, **kwargs)
    supplied.apply_defaults()
    numbers = dict(supplied.arguments)
    array, generator = numbers.pop("array"), numbers.pop("generator")
    if not array.size or not array.ndim or not all(
        isinstance(n, (int, float)) for n in numbers.values()
    ):
        return None
    floating = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
    if not floating and (original.__name__ != "fill_bernoulli" or array.dtype.kind not in "biu"):
        return None
    result = Counted(original.__name__, stream, tuple(map(float, numbers.values())))
    if not LEGAL[original.__name__](*result.numbers):
        return None  # the original raises
    return result, default_generator if generator is None else generator


# --------------------------------------------------------------- from 64 bits to a number


@dataclass(frozen=True)
class _Bits:
    """Random bits for the element at a place."""

    place: Node
    stream: Node
    key: Node

    def word(self) -> Node:
        """32 of them, U32: the cheaper ones."""
        return apply(Scalar.PHILOX_WORD, self.place, self.stream, self.key, type=Type.U32)

    def pair(self) -> Node:
        """64 of them, U64."""
        return apply(Scalar.PHILOX, self.place, self.stream, self.key)


def _of(value: float, type: Type) -> Node:
    return constant(numpy_type(type).type(value).item(), type)


def _part(bits: Node, shift: int, count: int, type: Type) -> Node:
    """`count` bits from the bit `shift` on, as a floating number."""
    width = 8 * bits.type.size
    result = apply(Scalar.SHR, bits, constant(shift, bits.type)) if shift else bits
    if shift + count < width:
        result = apply(Scalar.AND, result, constant((1 << count) - 1, bits.type))
    return cast(cast(result, Type.I64 if width == 64 else Type.I32), type)


def _unit(bits: _Bits, type: Type) -> Node:
    """On [0, 1), as fine as the type has it."""
    if type is Type.F64:
        return apply(Scalar.MUL, _part(bits.pair(), 11, 53, type), _of(2.0**-53, type))
    return apply(Scalar.MUL, _part(bits.word(), 8, 24, type), _of(2.0**-24, type))


def _uniform(bits: _Bits, wide: Type, type: Type, low: float, high: float) -> Node:
    result = _unit(bits, wide)
    if (low, high) != (0.0, 1.0):
        result = apply(Scalar.ADD, apply(Scalar.MUL, result, _of(high - low, wide)), _of(low, wide))
    result = cast(cast(result, type), wide)  # rounding may have reached `high`, which is excluded
    return apply(Scalar.WHERE, apply(Scalar.LT, result, _of(high, wide)), result, _of(low, wide))


def _below(bits: _Bits, p: float) -> Node:
    """Whether a number on [0, 1) is less than p."""
    bound, word = math.ceil(p * 2.0**32), bits.word()
    if bound >= 1 << 32:
        return apply(Scalar.LE, constant(0, Type.U32), word)
    return apply(Scalar.LT, word, constant(bound, Type.U32))


def _bernoulli(bits: _Bits, wide: Type, type: Type, p: float) -> Node:
    return cast(_below(bits, p), wide)


def _dropout(bits: _Bits, wide: Type, type: Type, p: float) -> Node:
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return apply(Scalar.WHERE, _below(bits, 1 - p), _of(scale, wide), _of(0.0, wide))


def _normal(bits: _Bits, wide: Type, type: Type, mean: float, std: float) -> Node:
    """Box and Muller's: the upper half gives the radius, the lower one the angle."""
    pair, step = bits.pair(), _of(2.0**-32, wide)
    first = apply(Scalar.MUL, apply(Scalar.ADD, _part(pair, 32, 32, wide), _of(1.0, wide)), step)
    radius = apply(Scalar.SQRT, apply(Scalar.MUL, apply(Scalar.LOG, first), _of(-2.0, wide)))
    turn = _of(2 * math.pi * 2.0**-32, wide)
    angle = apply(Scalar.MUL, _part(pair, 0, 32, wide), turn)
    result = apply(Scalar.MUL, radius, apply(Scalar.COS, angle))
    return apply(Scalar.ADD, apply(Scalar.MUL, result, _of(std, wide)), _of(mean, wide))


FORMULAS: dict[str, Callable[..., Node]] = {
    "fill_uniform": _uniform, "fill_bernoulli": _bernoulli, "fill_dropout": _dropout,
    "fill_normal": _normal,
}
LEGAL: dict[str, Callable[..., bool]] = {
    "fill_uniform": lambda low, high: -math.inf < low <= high < math.inf,
    "fill_bernoulli": lambda p: 0 <= p <= 1, "fill_dropout": lambda p: 0 <= p <= 1,
    "fill_normal": lambda mean, std: std >= 0,
}
