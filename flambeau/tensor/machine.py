"""Machine code for large random draws: Box and Muller's blocks, shuffles, C's maths.

The array code in generator.py, normal.py, integers.py and libm.py is the definition; these kernels
give the same bits sooner. They are compiled, or found on disk, once enough work has been asked for
to pay for that, and not at all where llvmlite is missing.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..native.target import load

if TYPE_CHECKING:
    from llvmlite import ir

# Elements drawn before compiling pays: with llvmlite to be imported, and with it there already.
_WORTH_IMPORTING, _WORTH_COMPILING = 3_000_000, 2_000_000
LEAST = 512  # smaller draws stay with the array code
MATHS = ("log", "log1p", "exp", "sin", "cos", "tan")

# The single-precision polynomials of Moshier's Cephes library, which normal.py uses too.
LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
LN2_LOW, LN2_HIGH = -2.12194440e-4, 0.693359375
SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
QUARTER_PI = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)
FOUR_OVER_PI = 1.27323954473516
SQRT_HALF = 0.707106781186547524

_POINTER, _INDEX = ctypes.c_void_p, ctypes.c_int64


class _Library:
    """The compiled kernels as ctypes functions; `None` for what could not be made."""

    lock = threading.Lock()
    asked = 0
    failed = False
    kernels: dict[str, Any] | None = None


def kernel(name: str, work: int) -> Callable[..., None] | None:
    """The kernel of this name, or None while compiling would not pay for `work` more elements."""
    if work < LEAST:
        return None
    if _Library.kernels is None:
        if _Library.failed:
            return None
        _Library.asked += work
        present = "llvmlite.binding" in sys.modules
        if _Library.asked < (_WORTH_COMPILING if present else _WORTH_IMPORTING):
            return None
        compile_kernels()
    return None if _Library.kernels is None else _Library.kernels[name]


def compile_kernels() -> bool:
    """Compile now; False where llvmlite or the C library cannot be had."""
    with _Library.lock:
        if _Library.kernels is None and not _Library.failed:
            try:
                _compile()
            except (ImportError, OSError, AttributeError, RuntimeError):
                _Library.failed = True
    return _Library.kernels is not None


def _compile() -> None:
    from llvmlite import binding, ir

    libm = ctypes.CDLL(None)
    for name in MATHS:
        address = ctypes.cast(getattr(libm, name), ctypes.c_void_p).value
        binding.add_symbol(f"flambeau_{name}", address)
    module = ir.Module("flambeau_random")
    arguments: dict[str, tuple[Any, ...]] = {
        "shuffle": _emit_shuffle(module),
        "normal32": _emit_normal32(module),
        "normal64": _emit_normal64(module),
        **{name: _emit_map(module, name) for name in MATHS},
    }
    names = [f"flambeau_{name}_kernel" for name in arguments]
    found = load(str(module), names, level=2, vectorize=True)
    _Library.kernels = {
        name: ctypes.CFUNCTYPE(None, *types)(found[f"flambeau_{name}_kernel"])
        for name, types in arguments.items()
    }


def _function(module: ir.Module, name: str, types: Sequence[Any]) -> tuple[ir.IRBuilder, Any]:
    from llvmlite import ir

    of = ir.Function(module, ir.FunctionType(ir.VoidType(), types), f"flambeau_{name}_kernel")
    return ir.IRBuilder(of.append_basic_block("entry")), of.args


@contextmanager
def _loop(b: ir.IRBuilder, start: Any, stop: Any, step: int = 1) -> Iterator[Any]:
    """for index in range(start, stop, step), tested before the first round."""
    from llvmlite import ir

    int64 = ir.IntType(64)
    start = start if isinstance(start, ir.Value) else int64(start)
    stop = stop if isinstance(stop, ir.Value) else int64(stop)
    before = b.block
    body, after = b.append_basic_block("body"), b.append_basic_block("after")
    b.cbranch(b.icmp_signed("<", start, stop), body, after)
    b.position_at_end(body)
    index = b.phi(int64)
    index.add_incoming(start, before)
    yield index
    following = b.add(index, int64(step))
    index.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, stop), body, after)
    b.position_at_end(after)


def _emit_shuffle(module: ir.Module) -> tuple[Any, ...]:
    """shuffle(order, words, n): order[i] and order[i + words[i] % (n - i)] change places."""
    from llvmlite import ir

    word, int64 = ir.IntType(32), ir.IntType(64)
    b, (order, words, n) = _function(
        module, "shuffle", [int64.as_pointer(), word.as_pointer(), int64]
    )
    with _loop(b, 0, b.sub(n, int64(1))) as i:
        left = b.trunc(b.sub(n, i), word)
        offset = b.zext(b.urem(b.load(b.gep(words, [i])), left), int64)
        here, there = b.gep(order, [i]), b.gep(order, [b.add(i, offset)])
        first, second = b.load(here), b.load(there)
        b.store(second, here)
        b.store(first, there)
    b.ret_void()
    return _POINTER, _POINTER, _INDEX


def _emit_map(module: ir.Module, name: str) -> tuple[Any, ...]:
    """name(x, n): the C library's function on each of n float64, in place."""
    from llvmlite import ir

    double, int64 = ir.DoubleType(), ir.IntType(64)
    b, (x, n) = _function(module, name, [double.as_pointer(), int64])
    function = _c_function(module, name)
    with _loop(b, 0, n) as i:
        place = b.gep(x, [i])
        b.store(b.call(function, [b.load(place)]), place)
    b.ret_void()
    return _POINTER, _INDEX


def _c_function(module: ir.Module, name: str) -> Any:
    from llvmlite import ir

    symbol = f"flambeau_{name}"
    if symbol in module.globals:
        return module.globals[symbol]
    return ir.Function(module, ir.FunctionType(ir.DoubleType(), [ir.DoubleType()]), symbol)


def _emit_normal64(module: ir.Module) -> tuple[Any, ...]:
    """normal64(uniforms, blocks, mean, std): blocks of 8 radii and 8 angles, in place."""
    from llvmlite import ir

    double, int64 = ir.DoubleType(), ir.IntType(64)
    b, (x, blocks, mean, std) = _function(
        module, "normal64", [double.as_pointer(), int64, double, double]
    )
    log, sin, cos = (_c_function(module, name) for name in ("log", "sin", "cos"))
    root = module.declare_intrinsic("llvm.sqrt", [double])
    fma = ir.Function(module, ir.FunctionType(double, [double] * 3), "llvm.fma.f64")
    with _loop(b, 0, blocks) as block, _loop(b, 0, 8) as j:
        first = b.gep(x, [b.add(b.mul(block, int64(16)), j)])
        second = b.gep(first, [int64(8)])
        rest = b.fsub(double(1.0), b.load(first))
        radius = b.call(root, [b.fmul(double(-2.0), b.call(log, [rest]))])
        angle = b.fmul(double(2.0 * math.pi), b.load(second))
        b.store(b.call(fma, [b.fmul(radius, b.call(cos, [angle])), std, mean]), first)
        b.store(b.call(fma, [b.fmul(radius, b.call(sin, [angle])), std, mean]), second)
    b.ret_void()
    return _POINTER, _INDEX, ctypes.c_double, ctypes.c_double


def _emit_normal32(module: ir.Module) -> tuple[Any, ...]:
    """normal32(uniforms, blocks, mean, std): the same in float32, 8 lanes abreast."""
    from llvmlite import ir

    single, int64 = ir.FloatType(), ir.IntType(64)
    b, (x, blocks, mean, std) = _function(
        module, "normal32", [single.as_pointer(), int64, single, single]
    )
    lanes = _Lanes(b, module)
    wide_mean, wide_std = lanes.spread(mean), lanes.spread(std)
    with _loop(b, 0, blocks) as block:
        start = b.gep(x, [b.mul(block, int64(16))])
        first = b.bitcast(start, lanes.floats.as_pointer())
        second = b.bitcast(b.gep(start, [int64(8)]), lanes.floats.as_pointer())
        rest = b.fsub(lanes.const(1.0), b.load(first, align=4))
        radius = lanes.sqrt(b.fmul(lanes.const(-2.0), lanes.log(rest)))
        sine, cosine = lanes.sin_cos(b.fmul(lanes.const(2 * math.pi), b.load(second, align=4)))
        b.store(lanes.fma(b.fmul(radius, cosine), wide_std, wide_mean), first, align=4)
        b.store(lanes.fma(b.fmul(radius, sine), wide_std, wide_mean), second, align=4)
    b.ret_void()
    return _POINTER, _INDEX, ctypes.c_float, ctypes.c_float


class _Lanes:
    """Float32 arithmetic on 8 lanes: the polynomials of normal.py with true fused steps."""

    def __init__(self, b: ir.IRBuilder, module: ir.Module) -> None:
        from llvmlite import ir

        self.b = b
        self.floats = ir.VectorType(ir.FloatType(), 8)
        self.ints = ir.VectorType(ir.IntType(32), 8)
        self._vector, self._lane = ir.Constant, ir.IntType(32)
        self._fma = ir.Function(
            module, ir.FunctionType(self.floats, [self.floats] * 3), "llvm.fma.v8f32"
        )
        self._sqrt = ir.Function(
            module, ir.FunctionType(self.floats, [self.floats]), "llvm.sqrt.v8f32"
        )

    def const(self, value: float) -> Any:
        return self._vector(self.floats, [float(np.float32(value))] * 8)

    def int_const(self, value: int) -> Any:
        return self._vector(self.ints, [value] * 8)

    def spread(self, scalar: Any) -> Any:
        vector = self.const(0.0)
        for lane in range(8):
            vector = self.b.insert_element(vector, scalar, self._lane(lane))
        return vector

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        return self.b.call(self._fma, [x, y, z])

    def sqrt(self, x: Any) -> Any:
        return self.b.call(self._sqrt, [x])

    def horner(self, x: Any, coefficients: Sequence[float]) -> Any:
        y = self.const(coefficients[0])
        for coefficient in coefficients[1:]:
            y = self.fma(y, x, self.const(coefficient))
        return y

    def log(self, x: Any) -> Any:
        b = self.b
        bits = b.bitcast(x, self.ints)
        exponent = b.sub(b.lshr(bits, self.int_const(23)), self.int_const(126))
        mantissa = b.or_(b.and_(bits, self.int_const(0x007FFFFF)), self.int_const(0x3F000000))
        mantissa = b.bitcast(mantissa, self.floats)
        small = b.fcmp_ordered("<", mantissa, self.const(SQRT_HALF))
        reduced = b.fsub(mantissa, self.const(1.0))
        reduced = b.select(small, b.fadd(reduced, mantissa), reduced)
        power = b.sitofp(b.sub(exponent, b.zext(small, self.ints)), self.floats)
        square = b.fmul(reduced, reduced)
        y = b.fmul(self.horner(reduced, LOG), reduced)
        y = self.fma(y, square, b.fmul(power, self.const(LN2_LOW)))
        y = b.fsub(y, b.fmul(square, self.const(0.5)))
        return self.fma(power, self.const(LN2_HIGH), b.fadd(reduced, y))

    def sin_cos(self, angle: Any) -> tuple[Any, Any]:
        b = self.b
        octant = b.fptosi(b.fmul(angle, self.const(FOUR_OVER_PI)), self.ints)
        octant = b.and_(b.add(octant, self.int_const(1)), self.int_const(0xFFFFFFFE))
        count = b.sitofp(octant, self.floats)
        x = angle
        for part in QUARTER_PI:
            x = self.fma(count, self.const(part), x)
        square = b.fmul(x, x)
        cosine = b.fmul(self.horner(square, COS), square)
        cosine = self.fma(cosine, square, b.fmul(square, self.const(-0.5)))
        cosine = b.fadd(cosine, self.const(1.0))
        sine = b.fmul(self.horner(square, SIN), square)
        sine = self.fma(sine, x, x)
        zero = self.int_const(0)
        swap = b.icmp_unsigned("!=", b.and_(octant, self.int_const(2)), zero)
        sine_sign = b.shl(b.and_(octant, self.int_const(4)), self.int_const(29))
        turned = b.xor(b.sub(octant, self.int_const(2)), self.int_const(0xFFFFFFFF))
        cosine_sign = b.shl(b.and_(turned, self.int_const(4)), self.int_const(29))
        return (
            self._signed(b.select(swap, cosine, sine), sine_sign),
            self._signed(b.select(swap, sine, cosine), cosine_sign),
        )

    def _signed(self, x: Any, sign: Any) -> Any:
        return self.b.bitcast(self.b.xor(self.b.bitcast(x, self.ints), sign), self.floats)
