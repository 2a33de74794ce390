"""Counter-based random numbers: `options={"random": "counter"}`.

Each number is a Philox-4x32-10 hash of a key (drawn once per run from the eager generator), the
draw's position in the step, and the element's position in memory. Kernels compute numbers where
they use them, in forward and again in backward, so a dropout mask takes no memory. Recorded calls
draw the same numbers.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...native.loop_ir.ir import Scalar, Type
from ...native.loop_ir.numpy_forms import dtype_of
from ...tensor.random.generator import Generator, default_generator
from ..ir.axis_order import order_axes
from ..ir.graph import Graph, Node, Op, apply, cast, constant, reshape
from ..ir.interpreter import evaluate, type_of

_HALVES = (Type.F16, Type.BF16)


def draw_key(buffer: np.ndarray, generator: Generator) -> None:
    """Fill a buffer with the key of one run: 64 bits from the generator."""
    words = generator.words(2).tolist()
    buffer[...] = words[0] << 32 | words[1]


@dataclass(frozen=True)
class CounterDraw:
    """A random draw: the eager sampler it replaces, its position in the step, its parameters."""

    name: str
    stream: int
    numbers: tuple[float, ...]

    @property
    def __name__(self) -> str:
        return self.name

    def build_node(self, shape: tuple[int, ...], dtype: np.dtype, key: Node) -> Node:
        """Build the node that computes the elements in memory order; `key` is a U64 scalar."""
        type = type_of(dtype)
        index = Node(Op.IOTA, (), (math.prod(shape),), Type.I64, {"axis": 0})
        place = cast(reshape(index, shape), Type.U64)
        computed = Type.F32 if type in _HALVES else type
        draw = _Bits(place, constant(self.stream, Type.U64), key)
        formula = _SAMPLERS[self.name].formula
        return cast(formula(draw, computed, type, *self.numbers), type)

    def fill(self, array: np.ndarray, key: int) -> None:
        """Write the same numbers into an array of any strides."""
        order = order_axes(array.strides)
        target = array.transpose(order)
        node = self.build_node(target.shape, array.dtype, constant(key, Type.U64))
        target[...] = evaluate(Graph([], [], [node], []), [])[0][0]


def replace_draw(
    original: Callable, args: tuple, kwargs: dict[str, Any], stream: int
) -> tuple[CounterDraw, Generator] | None:
    """Return an eager draw's counter-based form and generator; None if it has no formula.

    The original also runs if its parameters are illegal, so that it raises its own error.
    """
    sampler = _SAMPLERS.get(original.__name__)
    if sampler is None:
        return None
    bound = inspect.signature(original).bind(*args, **kwargs)
    bound.apply_defaults()
    numbers = dict(bound.arguments)
    array, generator = numbers.pop("array"), numbers.pop("generator")
    if not array.size or not array.ndim or not all(
        isinstance(n, (int, float)) for n in numbers.values()
    ):
        return None
    floating = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
    if not floating and not (sampler.fills_integers and array.dtype.kind in "biu"):
        return None
    result = CounterDraw(original.__name__, stream, tuple(map(float, numbers.values())))
    if not sampler.is_legal(*result.numbers):
        return None
    return result, default_generator if generator is None else generator


# --------------------------------------------------------------- from 64 bits to a number


@dataclass(frozen=True)
class _Bits:
    """Random bits for the element at a position."""

    place: Node
    stream: Node
    key: Node

    def word(self) -> Node:
        """Return 32 bits as U32, more cheaply than `pair`."""
        return apply(Scalar.PHILOX_WORD, self.place, self.stream, self.key, type=Type.U32)

    def pair(self) -> Node:
        """Return 64 bits as U64."""
        return apply(Scalar.PHILOX, self.place, self.stream, self.key)


def _create_constant(value: float, type: Type) -> Node:
    return constant(dtype_of(type).type(value).item(), type)


def _convert_bits_to_float(bits: Node, shift: int, count: int, type: Type) -> Node:
    """Convert `count` bits, starting at bit `shift`, to a floating-point number."""
    width = 8 * bits.type.size
    result = apply(Scalar.SHR, bits, constant(shift, bits.type)) if shift else bits
    if shift + count < width:
        result = apply(Scalar.AND, result, constant((1 << count) - 1, bits.type))
    return cast(cast(result, Type.I64 if width == 64 else Type.I32), type)


def _scale(x: Node, factor: float) -> Node:
    return apply(Scalar.MUL, x, _create_constant(factor, x.type))


def _shift(x: Node, offset: float) -> Node:
    return apply(Scalar.ADD, x, _create_constant(offset, x.type))


def _draw_unit_interval(bits: _Bits, type: Type) -> Node:
    """Sample uniformly from [0, 1), at the resolution of the type's significand."""
    if type is Type.F64:
        return _scale(_convert_bits_to_float(bits.pair(), 11, 53, type), 2.0**-53)
    return _scale(_convert_bits_to_float(bits.word(), 8, 24, type), 2.0**-24)


def _draw_uniform(bits: _Bits, computed: Type, type: Type, low: float, high: float) -> Node:
    result = _draw_unit_interval(bits, computed)
    if (low, high) != (0.0, 1.0):
        result = _shift(_scale(result, high - low), low)
    result = cast(cast(result, type), computed)  # rounding may reach `high`, which is excluded
    is_inside = apply(Scalar.LT, result, _create_constant(high, computed))
    return apply(Scalar.WHERE, is_inside, result, _create_constant(low, computed))


def _is_below(bits: _Bits, p: float) -> Node:
    """A Bernoulli trial: whether a uniform number on [0, 1) is less than p."""
    bound, word = math.ceil(p * 2.0**32), bits.word()
    if bound >= 1 << 32:
        return apply(Scalar.LE, constant(0, Type.U32), word)
    return apply(Scalar.LT, word, constant(bound, Type.U32))


def _draw_bernoulli(bits: _Bits, computed: Type, type: Type, p: float) -> Node:
    return cast(_is_below(bits, p), computed)


def _draw_dropout(bits: _Bits, computed: Type, type: Type, p: float) -> Node:
    scale = 0.0 if p == 1 else 1 / (1 - p)
    survives = _is_below(bits, 1 - p)
    return apply(Scalar.WHERE, survives, _create_constant(scale, computed),
                 _create_constant(0.0, computed))


def _draw_normal(bits: _Bits, computed: Type, type: Type, mean: float, std: float) -> Node:
    """The Box-Muller transform: the upper 32 bits give the radius, the lower 32 the angle."""
    pair = bits.pair()
    uniform = _scale(_shift(_convert_bits_to_float(pair, 32, 32, computed), 1.0), 2.0**-32)
    radius = apply(Scalar.SQRT, _scale(apply(Scalar.LOG, uniform), -2.0))
    angle = _scale(_convert_bits_to_float(pair, 0, 32, computed), 2 * math.pi * 2.0**-32)
    normal = apply(Scalar.MUL, radius, apply(Scalar.COS, angle))
    return _shift(_scale(normal, std), mean)


@dataclass(frozen=True)
class _Sampler:
    """The counter-based form of an eager sampler.

    `is_legal`: whether the eager sampler accepts its parameters.
    """

    formula: Callable[..., Node]
    is_legal: Callable[..., bool]
    fills_integers: bool = False


def _is_probability(p: float) -> bool:
    return 0 <= p <= 1


_SAMPLERS = {
    "fill_uniform": _Sampler(_draw_uniform, lambda low, high: -math.inf < low <= high < math.inf),
    "fill_bernoulli": _Sampler(_draw_bernoulli, _is_probability, fills_integers=True),
    "fill_dropout": _Sampler(_draw_dropout, _is_probability),
    "fill_normal": _Sampler(_draw_normal, lambda mean, std: std >= 0),
}
