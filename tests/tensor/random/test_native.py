"""Random numbers by machine code: the bits and the state that array code leaves, at any size."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from flambeau.native.runtime.background_jit import KernelPolicy
from flambeau.tensor.random import distributions, integers, native, normal
from flambeau.tensor.random.generator import Generator
from flambeau.tensor.random.rejection_sampling import binomial, poisson, standard_gamma

SIZES = [0, 1, 2, 623, 624, 625, 1248, 1249, 4992, 5617, 70_001, 131_072]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
DRAWS: dict[str, tuple[list[str], Callable]] = {
    "unit": (FLOATS, distributions.fill_uniform),
    "uniform": (FLOATS, lambda a, g: distributions.fill_uniform(a, g, -3.3, 1.7)),
    "narrow": (["float16"], lambda a, g: distributions.fill_uniform(a, g, 1, 1.003)),
    "bernoulli": ([*FLOATS, "bool", "int64", "uint8", "int16"],
                  lambda a, g: distributions.fill_bernoulli(a, 0.3, g)),
    "dropout": (FLOATS, lambda a, g: distributions.fill_dropout(a, 0.3, g)),
    "integers": (["int64", "int32", "int16", "float32", "float16"],
                 lambda a, g: integers.fill_random(a, g, -7, 93)),
    "normal": (FLOATS, lambda a, g: normal.fill_normal(a, g, 0.5, 2.0)),
    "log normal": (["float64"], lambda a, g: normal.fill_log_normal(a, g, 0.3, 0.7)),
    "exponential": (["float64"], distributions.fill_exponential),
    "cauchy": (["float64"], distributions.fill_cauchy),
    "permutation": (["int64", "int32"], lambda a, g: put(a, integers.randperm(a.size, a.dtype, g))),
}


def put(array: np.ndarray, values: np.ndarray) -> None:
    """An array's elements, row by row."""
    array[...] = values.reshape(array.shape)


def gamma_shapes(array: np.ndarray) -> np.ndarray:
    """Shape parameters on both sides of 1, and what takes no word or never ends well."""
    shapes = np.random.default_rng(array.size).random(array.size).astype(array.dtype) * 3
    shapes[::7], shapes[3::11], shapes[5::101] = 0, 1000, np.nan
    return shapes


def numpy_type(name: str) -> np.dtype:
    """A dtype by its name, bfloat16 too."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def drawn(fill: Callable, array: np.ndarray, spent: int) -> tuple[bytes, bytes]:
    """The bytes that a draw leaves in an array, after some words, and the generator's state."""
    source = Generator().manual_seed(array.size + spent)
    source.words(spent)
    fill(array, source)
    return array.tobytes(), np.asarray(Generator.unwrap_state(source.get_state())).tobytes()


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in DRAWS for d in DRAWS[n][0]])
def test_machine_code_gives_the_bits_of_array_code(
    name: str, dtype: str, by_arrays: Callable, by_kernels: Callable
) -> None:
    fill, kind = DRAWS[name][1], numpy_type(dtype)
    cases = [(n, spent) for n in SIZES for spent in (0, 5)]
    by_arrays()
    expected = [drawn(fill, np.empty(n, kind), spent) for n, spent in cases]
    turned = drawn(fill, np.empty((70, 90), kind).T[:, ::2], 3)
    by_kernels()
    for (n, spent), bits in zip(cases, expected, strict=True):
        assert drawn(fill, np.empty(n, kind), spent) == bits, (n, spent)
    assert drawn(fill, np.empty((70, 90), kind).T[:, ::2], 3) == turned


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gamma_numbers_by_machine_code_are_those_of_the_loop(
    dtype: str, by_arrays: Callable, by_kernels: Callable
) -> None:
    cases = [(n, spent) for n in (0, 1, 2, 207, 1249, 5617) for spent in (0, 3, 621, 624)]

    def fill(array: np.ndarray, source: Generator) -> None:
        normal.fill_normal(np.empty(3), source)  # leaves a normal number for the next draw
        shapes = gamma_shapes(array)
        put(array, standard_gamma(shapes, source) + standard_gamma(shapes, source))

    by_arrays()
    expected = [drawn(fill, np.empty(n, dtype), spent) for n, spent in cases]
    by_kernels()
    assert native.make_sequential_drawer("gamma", np.dtype(dtype), 1) is not None
    for (n, spent), numbers in zip(cases, expected, strict=True):
        assert drawn(fill, np.empty(n, dtype), spent) == numbers, (n, spent)
    assert standard_gamma(np.ones((), dtype)).shape == ()


def count_parameters(name: str, size: int, dtype: str) -> list[np.ndarray]:
    """Rates, or counts and probabilities, on both sides of 10 successes, and what takes no word."""
    source = np.random.default_rng(size)
    if name == "poisson":
        rates = (source.random(size) * 30).astype(numpy_type(dtype))
        rates[::7], rates[3::11], rates[5::13] = 0, 3000, 1e-3
        return [rates]
    counts, p = np.floor(source.random(size) * 60).astype(dtype), source.random(size).astype(dtype)
    counts[2::9], p[::7], p[3::11], p[5::13], p[6::17] = 40_000, 0, 1, np.nan, 1e-3
    return [counts, p]


@pytest.mark.parametrize(("name", "dtype"), [
    ("poisson", "float32"), ("poisson", "float64"), ("poisson", "bfloat16"),
    ("binomial", "float32"), ("binomial", "float64"),
])
def test_counts_by_machine_code_are_those_of_the_loop(
    name: str, dtype: str, by_arrays: Callable, by_kernels: Callable
) -> None:
    draw = {"poisson": poisson, "binomial": binomial}[name]
    cases = [(n, spent) for n in (1, 207, 1249) for spent in (0, 621)]

    def fill(array: np.ndarray, source: Generator) -> None:
        normal.fill_normal(np.empty(3), source)  # the normal number that it leaves stays
        parameters = count_parameters(name, array.size, dtype)
        put(array, draw(*parameters, source) + 100 * draw(*parameters, source))

    by_arrays()
    expected = [drawn(fill, np.empty(n), spent) for n, spent in cases]
    by_kernels()
    assert native.make_sequential_drawer(name, np.dtype("float64"), 1) is not None
    for (n, spent), numbers in zip(cases, expected, strict=True):
        assert drawn(fill, np.empty(n), spent) == numbers, (n, spent)


def test_counts_without_a_kernel_end_as_before(by_kernels: Callable) -> None:
    by_kernels()
    with pytest.raises(RuntimeError, match="expected rate to be non-negative"):
        poisson(np.array([3.0, -1.0]))
    assert poisson(np.full((2, 0), 3.0)).shape == (2, 0)
    endless, none = binomial(np.array([np.inf, np.nan]), np.array([1.0, 0.5]))
    assert endless == np.inf and np.isnan(none)


def test_the_twister_goes_on_from_what_machine_code_left(by_kernels: Callable) -> None:
    by_kernels()
    source, plain = Generator().manual_seed(1), np.random.RandomState(1)
    for count in (3, 624 * 9, 1, 624 * 8 + 620, 624, 10_000):
        expected = plain.randint(0, 1 << 32, count, dtype=np.uint32)
        np.testing.assert_array_equal(source.words(count), expected)


def test_machine_code_draws_where_kernels_with_other_rounding_may_not(
    monkeypatch: pytest.MonkeyPatch, by_kernels: Callable
) -> None:
    monkeypatch.setattr(KernelPolicy, "allowed", False)
    by_kernels()
    assert native.get_kernel("twist") is not None
