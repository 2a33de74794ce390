"""Vector functions against extended precision: over all float32s, at special values, to 2 ulp."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

from flambeau.native.jit.kernel_function import KernelFunction, compile_kernel
from flambeau.native.codegen.kernel import emit
from flambeau.native.loop_ir.ir import (
    Affine, Apply, Buffer, Index, Kernel, Load, Loop, LoopKind, Scalar, Store, Type,
)
from flambeau.native.jit.elf_loader import load
from flambeau.native.target.machine import TARGETS

Long = np.longdouble
REFERENCES: dict[str, Callable] = {
    "EXP": np.exp, "EXP2": np.exp2, "EXPM1": np.expm1, "LOG": np.log, "LOG2": np.log2,
    "LOG10": np.log10, "LOG1P": np.log1p, "TANH": np.tanh, "SINH": np.sinh, "COSH": np.cosh,
    "ASINH": np.arcsinh, "ACOSH": np.arccosh, "ATANH": np.arctanh, "SIN": np.sin, "COS": np.cos,
    "TAN": np.tan, "ASIN": np.arcsin, "ACOS": np.arccos, "ATAN": np.arctan,
    "ERF": lambda x: special.erf(x.astype(float)).astype(Long),
    "ERFC": lambda x: special.erfc(x.astype(float)).astype(Long),
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -3.0, np.inf, -np.inf, np.nan, 1e-45, 1e-40,
           3.4e38, -3.4e38, 88.8, -103.9, -87.4, 1e30]


@functools.cache
def function(name: str, count: int, arity: int = 1, type: Type = Type.F32) -> KernelFunction:
    """y[i] = name(x[i], ...) over `count` elements, in lanes."""
    inputs = [Buffer(type, f"x{k}") for k in range(arity)]
    output, i = Buffer(type, "y"), Index("i")
    at = Affine(0, ((i, 1),))
    value = Apply(Scalar[name], tuple(Load(buffer, at) for buffer in inputs), type)
    return compile_kernel(
        Kernel(
            "k",
            [*inputs, output],
            [Loop(i, count, [Store(output, at, value)], LoopKind.VECTORIZED)],
        )
    )


@functools.cache
def arguments() -> np.ndarray:
    """Float32s of every size and sign, those in common use, and special ones."""
    bits = np.arange(0, 1 << 32, 99_991, dtype=np.uint64).astype(np.uint32)
    draw = np.random.default_rng(0)
    common = [draw.uniform(-n, n, 20_000).astype(np.float32) for n in (1, 20, 110)]
    return np.concatenate([bits.view(np.float32), *common, np.float32(SPECIAL)])


def assert_close(actual: np.ndarray, exact: np.ndarray, units: float) -> None:
    """Within some units in the last place; infinities, NaNs and signed zeros where they belong."""
    expected = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    finite = np.isfinite(expected) & np.isfinite(actual)
    beyond = np.isinf(actual) & np.isfinite(expected)
    assert (np.abs(exact[beyond]) > 3.40282e38).all()
    infinite = np.isinf(expected)
    np.testing.assert_array_equal(actual[infinite], expected[infinite])
    spacing = np.spacing(np.maximum(np.abs(expected[finite]), np.float32(1.2e-38)))
    error = np.abs((actual[finite].astype(Long) - exact[finite]) / spacing.astype(Long))
    assert error.max() <= units, actual[finite][error.argmax()]
    zero = finite & (expected == 0) & (exact == 0)
    np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_function(name: str) -> None:
    x = arguments()
    y = np.empty_like(x)
    function(name, x.size).run([x, y])
    with np.errstate(all="ignore"):
        assert_close(y, REFERENCES[name](x.astype(Long)), 2.0 if name == "ERFC" else 1.5)


@pytest.mark.parametrize(("name", "reference"), [("POW", np.power), ("ATAN2", np.arctan2)])
def test_function_of_two(name: str, reference: Callable) -> None:
    draw = np.random.default_rng(0)
    pairs = np.array(np.meshgrid(np.float32(SPECIAL), np.float32(SPECIAL))).reshape(2, -1)
    size = np.abs(draw.standard_normal(30_000) * 10)
    x = np.concatenate([pairs[0], size]).astype(np.float32)
    y = np.concatenate([pairs[1], draw.standard_normal(30_000) * 10]).astype(np.float32)
    out = np.empty_like(x)
    function(name, x.size, 2).run([x, y, out])
    with np.errstate(all="ignore"):
        exact = reference(x.astype(Long), y.astype(Long))
        assert_close(out, exact, 1.0)
    known = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(out[known]), np.signbit(exact[known]))


@functools.cache
def wide_arguments() -> np.ndarray:
    """Float64s of every size and sign, those in common use, around turns and powers."""
    draw = np.random.default_rng(0)
    special = [*SPECIAL, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 709.78, 709.79,
               710.4, -745.2, 1e22, 99999999.5, 1e8, 22.0001, np.pi / 2, np.pi]
    bits = draw.integers(0, 1 << 64, 20_000, dtype=np.uint64).view(float)
    common = [draw.uniform(-n, n, 4000) for n in (1e-8, 0.01, 0.3, 1, 3, 30, 700, 1e5)]
    around = [np.arange(-500, 500) * (np.pi / 2), 1 + draw.normal(size=2000) * 1e-3]
    powers = [10.0 ** np.arange(-300, 300), 2.0 ** np.arange(-1074, 1024)]
    return np.concatenate([special, np.negative(special), bits, *common, *around, *powers])


def units_apart(actual: np.ndarray, exact: np.ndarray) -> float:
    """By how many units in the last place; infinities, NaNs and signs of zero must agree."""
    expected = exact.astype(float)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite])
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(expected[zero]))
    spacing = np.spacing(np.abs(expected[finite]))
    return float(np.abs((actual[finite].astype(Long) - exact[finite]) / spacing).max())


def erf_series(x: np.ndarray) -> np.ndarray:
    """erf in extended precision, by a series of terms of one sign."""
    size = np.minimum(np.abs(x), 7)
    term = total = size * (2 / np.sqrt(Long(np.arccos(Long(-1)))))
    for k in range(1, 400):
        term = term * (2 * size * size / (2 * k + 1))
        total = total + term
    return np.copysign(total * np.exp(-size * size), x)


LIBRARY = {"ASINH", "ACOSH", "ATANH", "ERF", "ERFC"}  # of C, on float64


@pytest.mark.parametrize("permutes", [True, False])
@pytest.mark.parametrize("name", sorted(REFERENCES.keys() - LIBRARY))
def test_function_of_float64(name: str, permutes: bool) -> None:
    x = wide_arguments()
    y = np.empty_like(x)
    compiled = function(name, x.size, 1, Type.F64)
    if not permutes:
        text = emit(compiled.kernel, TARGETS["avx2"], f"wide_{name}")
        compiled = KernelFunction(
            compiled.kernel, f"wide_{name}", load(text, [f"wide_{name}"])[f"wide_{name}"]
        )
    compiled.run([x, y])
    with np.errstate(all="ignore"):
        units = units_apart(y, REFERENCES[name](x.astype(Long)))
    assert units <= (2.2 if name in ("LOG2", "TAN") else 2.0)


def test_erf_of_float64() -> None:
    draw = np.random.default_rng(0)
    x = np.r_[wide_arguments(), draw.uniform(-7, 7, 200_000), draw.normal(size=20_000) * 1e-3]
    y = np.empty_like(x)
    function("ERF", x.size, 1, Type.F64).run([x, y])
    with np.errstate(all="ignore"):
        assert units_apart(y, erf_series(x.astype(Long))) <= 2.0
    assert (y[np.abs(x) > 6] == np.sign(x[np.abs(x) > 6])).all()


def test_angles_of_float64() -> None:
    draw = np.random.default_rng(0)
    pairs = np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)
    x = np.r_[pairs[0], draw.normal(size=20_000)]
    y = np.r_[pairs[1], draw.normal(size=20_000) * draw.choice([1e-3, 1, 1e3], 20_000)]
    out = np.empty_like(x)
    function("ATAN2", x.size, 2, Type.F64).run([y, x, out])
    assert units_apart(out, np.arctan2(y.astype(Long), x.astype(Long))) <= 2.0


@pytest.mark.parametrize("name", ["ERF", "POW"])
def test_float64_is_the_c_library_s_or_as_good(name: str) -> None:
    draw = np.random.default_rng(0)
    x = np.abs(draw.standard_normal(37))
    arity = 2 if name == "POW" else 1
    out = np.empty_like(x)
    function(name, 37, arity, Type.F64).run([x] * arity + [out])
    exact = np.power(x, x) if name == "POW" else REFERENCES[name](x)
    np.testing.assert_allclose(out, np.asarray(exact, float), rtol=1e-15)


def test_exp_of_float64() -> None:
    draw = np.random.default_rng(0)
    special = [0, -0.0, np.inf, -np.inf, np.nan, 709.78, 709.79, 1e300, -1e300, -708.4, -744.4]
    x = np.r_[special, draw.uniform(-745, 710, 40_000), draw.normal(size=40_000), 5e-324]
    y = np.empty_like(x)
    function("EXP", x.size, 1, Type.F64).run([x, y])
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(Long))
        expected = exact.astype(float)
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(y[~finite], expected[~finite])
        error = np.abs((y[finite].astype(Long) - exact[finite]) / np.spacing(expected[finite]))
    assert error.max() <= 1.0, x[finite][error.argmax()]


@pytest.mark.parametrize(
    "name", ["ERF", "ERFC", "EXP", "LOG", "LOG10", "LOG1P", "LOG2", "POW", "TANH"]
)
def test_formulas_for_processors_without_permutations(name: str) -> None:
    x = arguments()
    y = np.empty_like(x)
    kernel = function(name, x.size, 1 + (name == "POW")).kernel
    text = emit(kernel, TARGETS["avx2"], f"plain_{name}")
    assert "avx512" not in text
    address = load(text, [f"plain_{name}"])[f"plain_{name}"]
    inputs = [x, np.full_like(x, 1.5), y] if name == "POW" else [x, y]
    KernelFunction(kernel, f"plain_{name}", address).run(inputs)
    with np.errstate(all="ignore"):
        wide = x.astype(Long)
        exact = np.power(wide, 1.5) if name == "POW" else REFERENCES[name](wide)
        assert_close(y, exact, 1.5)


@pytest.mark.parametrize("name", ["ERF", "ERFC", "EXP", "LOG", "LOG10", "POW", "TANH"])
@pytest.mark.parametrize("count", [1, 2, 5, 15, 17, 31, 33, 47, 64, 100])
def test_any_number_of_lanes_gives_the_same(name: str, count: int) -> None:
    x = np.random.default_rng(count).uniform(0.1, 3, 100).astype(np.float32)
    whole, some = np.empty_like(x), np.zeros(count + 1, np.float32)
    inputs = [x, x] if name == "POW" else [x]
    function(name, 100, len(inputs)).run([*inputs, whole])
    function(name, count, len(inputs)).run([*inputs, some])
    np.testing.assert_array_equal(some[:count], whole[:count])
    assert some[count] == 0


def test_logarithms_of_powers_are_whole() -> None:
    for name, base, powers in (("LOG10", 10.0, range(11)), ("LOG2", 2.0, range(-149, 128))):
        x = np.array([base**k for k in powers], np.float32)
        y = np.empty_like(x)
        function(name, x.size).run([x, y])
        np.testing.assert_array_equal(y, np.array(powers, np.float32))


def test_exp_down_to_the_last_number_above_zero() -> None:
    x = np.linspace(-104.05, -87.0, 20_011, dtype=np.float32)
    y = np.empty_like(x)
    function("EXP", x.size).run([x, y])
    assert_close(y, np.exp(x.astype(Long)), 1.5)
    assert y[0] == 0 < y[x > -103.97].min()
