"""Printing: examples with PyTorch's output (printing.txt), and random arrays beside PyTorch."""

from __future__ import annotations

import doctest
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flambeau.tensor import Tensor, set_default_dtype, wrap
from flambeau.tensor.dtypes import float32, float64
from flambeau.tensor.meta import meta_array
from flambeau.tensor.printing import (
    format_array, format_tensor, get_printoptions, printoptions, prints_as_tensor, set_printoptions,
)

EXAMPLES = doctest.DocTestParser().get_examples(
    Path(__file__).with_name("printing.txt").read_text()
)


@pytest.fixture(autouse=True)
def _defaults():
    yield
    set_printoptions(profile="default")
    set_default_dtype(float32)


# ---------------------------------------------------------------- examples with their output


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.source.strip())
def test_prints_as_the_example_says(torch, example):
    def show(tensor, **options):
        torch.set_printoptions(**options)
        try:
            return repr(tensor)
        finally:
            torch.set_printoptions(profile="default")

    shown = eval(example.source, {"torch": torch, "show": show})
    text = shown if isinstance(shown, str) else repr(shown)
    assert text == example.want.replace("<BLANKLINE>\n", "\n").removesuffix("\n")


@pytest.mark.parametrize(
    ("make", "spec", "text"),
    [
        (lambda t: t.tensor(1.5), "", "1.5"),
        (lambda t: t.tensor(1.5), " .3f", " 1.500"),
        (lambda t: t.tensor(1.5, requires_grad=True), ".2e", "1.50e+00"),
        (lambda t: t.tensor(3), "03d", "003"),
        (lambda t: t.tensor(True), "", "True"),
        (lambda t: t.tensor(1 + 2j), ".1f", "1.0+2.0j"),
        (lambda t: t.tensor([1.5]), "", "tensor([1.5000])"),
        (lambda t: t.empty((), device="meta"), "", "tensor(..., device='meta', size=())"),
        (lambda t: t.tensor([1.5]), ".2f", None),
        (lambda t: t.empty((), device="meta"), ".2f", None),
        (lambda t: t.nn.Parameter(t.tensor(1.5)), ".2f", None),
    ],
)
def test_format_spec_is_for_scalars_only(torch, make, spec, text):
    if text is not None:
        assert format(make(torch), spec) == text
    else:
        with pytest.raises(TypeError, match="unsupported format string passed to"):
            format(make(torch), spec)


@pytest.mark.parametrize(
    ("default", "dtype", "text"),
    [
        ("float64", "float64", "tensor([1.5000])"),
        ("float64", "float32", "tensor([1.5000], dtype=torch.float32)"),
        ("float64", "complex128", "tensor([1.5000+0.j])"),
        ("float64", "complex64", "tensor([1.5000+0.j], dtype=torch.complex64)"),
        ("float64", "int64", "tensor([1])"),
        ("float16", "float16", "tensor([1.5000])"),
        ("float16", "complex64", "tensor([1.5000+0.j])"),
        ("bfloat16", "float32", "tensor([1.5000], dtype=torch.float32)"),
        ("bfloat16", "complex64", "tensor([1.5000+0.j])"),
    ],
)
def test_the_default_dtype_goes_unsaid(torch, default, dtype, text):
    tensor = torch.tensor([1.5]).to(getattr(torch, dtype))
    try:
        torch.set_default_dtype(getattr(torch, default))
        assert repr(tensor) == text
    finally:
        torch.set_default_dtype(torch.float32)


# ---------------------------------------------------------------- what stands around the elements


def test_empty_and_meta_tensors_name_every_dtype_but_the_default():
    set_default_dtype(float64)
    assert format_tensor(wrap(np.zeros((0, 2)))) == "tensor([], size=(0, 2))"
    assert format_tensor(wrap(np.zeros(0, np.float32))) == "tensor([], dtype=torch.float32)"
    meta = wrap(meta_array((2,), np.dtype(np.int64)))
    assert format_tensor(meta) == "tensor(..., device='meta', size=(2,), dtype=torch.int64)"


def test_subclasses_print_under_their_name_unless_they_are_plain():
    class Named(Tensor):
        pass

    @prints_as_tensor
    class Plain(Tensor):
        pass

    class Heir(Plain):
        pass

    ones = wrap(np.ones(2, np.float32))
    assert format_tensor(ones._alias(Named)) == "Named([1., 1.])"
    assert format_tensor(ones._alias(Plain)) == "tensor([1., 1.])"
    assert format_tensor(ones._alias(Heir)) == "Parameter(Heir([1., 1.]))"
    marked = ones._alias(Named)
    marked._is_param = True
    assert format_tensor(marked) == "Parameter(Named([1., 1.]))"


def test_a_name_shifts_the_lines_after_the_first():
    class ALongName(Tensor):
        pass

    tensor = wrap(np.arange(4).reshape(2, 2))._alias(ALongName)
    assert format_tensor(tensor) == "ALongName([[0, 1],\n           [2, 3]])"


def test_a_refused_grad_fn_prints_as_invalid():
    class Stale(Tensor):
        @property
        def grad_fn(self):
            raise RuntimeError("view and base were modified in no_grad mode")

    assert format_tensor(wrap(np.ones(1, np.float32))._alias(Stale)) == (
        "Stale([1.], grad_fn=<Invalid>)"
    )


def test_contents_given_by_the_caller_are_not_read_from_the_tensor():
    x = wrap(np.zeros((2, 2), np.int32))
    assert format_tensor(x, tensor_contents="[...]") == "tensor([...], dtype=torch.int32)"


# ---------------------------------------------------------------- options


def test_options_are_what_was_set():
    set_printoptions(precision=2, threshold=7, edgeitems=1, linewidth=30, sci_mode=False)
    assert get_printoptions() == {
        "precision": 2, "threshold": 7, "edgeitems": 1, "linewidth": 30, "sci_mode": False,
    }
    set_printoptions(linewidth=50)
    assert get_printoptions() == {
        "precision": 2, "threshold": 7, "edgeitems": 1, "linewidth": 50, "sci_mode": None,
    }
    set_printoptions(profile="full", precision=6)
    assert get_printoptions() == {
        "precision": 6, "threshold": math.inf, "edgeitems": 3, "linewidth": 80, "sci_mode": None,
    }


def test_the_context_manager_restores_options_after_an_error():
    set_printoptions(precision=3, sci_mode=True)
    before = get_printoptions()
    shown = []

    def fail():
        with printoptions(precision=1, sci_mode=False):
            shown.append(format_array(np.array([0.25])))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert shown == ["[0.2]"]
    assert get_printoptions() == before


def test_only_the_corners_of_a_long_tensor_are_looked_at():
    ones = np.broadcast_to(np.float32(1), (10**6, 10**6))  # a look at all of them would not end
    with printoptions(edgeitems=1):
        assert format_array(ones) == "[[1.,  ..., 1.],\n ...,\n [1.,  ..., 1.]]"


# ---------------------------------------------------------------- random arrays beside PyTorch

FLOATS = (
    np.float16, ml_dtypes.bfloat16, np.float32, np.float64,
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
)
OTHERS = (
    np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64, np.uint16, np.uint32, np.uint64,
    np.complex64, np.complex128,
)
SHAPES = (
    (), (1,), (4,), (7,), (30,), (0,), (0, 3), (2, 0), (3, 4), (2, 3, 4), (2, 1, 3, 2), (1, 1, 1),
    (1001,), (40, 40), (7, 400), (2, 3, 300), (7, 8, 9, 10), (3, 1000), (2000, 1), (6, 200),
)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"precision": 2},
    {"precision": 0},
    {"precision": 12},
    {"threshold": 5},
    {"threshold": 0, "edgeitems": 1},
    {"threshold": 5, "edgeitems": 2, "linewidth": 20},
    {"threshold": 5, "edgeitems": 0},
    {"edgeitems": 0},
    {"edgeitems": 5, "threshold": 100},
    {"linewidth": 40},
    {"linewidth": 10},
    {"linewidth": 200},
    {"profile": "short"},
    {"profile": "full", "precision": 6},
    {"sci_mode": True},
    {"sci_mode": False},
    {"sci_mode": True, "precision": 1, "linewidth": 60},
)


def doubles(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of one of the characters that decide on the notation, some of them special."""
    normal = random.standard_normal(shape)
    values = (
        normal,
        np.round(normal * 50),
        np.round(normal),
        normal * 10.0 ** random.integers(-9, 10),
        normal * 10.0 ** random.integers(-6, 7, shape),
        np.round(normal * 10.0 ** random.integers(0, 12)),
        np.exp(30 * normal),
        random.random(shape),
        random.integers(0, 2, shape) * 0.5,
        np.zeros(shape),
        random.choice([1000.0, 1.0, 0.99, 1e-4, 9.999e-5, 1e8, 1.1e8, 999.5], shape),
    )[random.integers(11)]
    special = random.random(shape) < random.choice([0.0, 0.0, 0.1, 0.9])
    return np.where(special, random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape), values)


def sample(random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array of random numbers of random character; on some calls a transposed view."""
    if random.random() < 0.2:
        return sample(random, shape[::-1], dtype).transpose()
    if dtype.kind == "b":
        return np.asarray(random.random(shape) < random.random())
    if dtype.kind in "iu":
        limits, spread = np.iinfo(dtype), int(10 ** random.integers(0, 19))
        low, high = max(int(limits.min), -spread), min(int(limits.max), spread)
        return np.asarray(random.integers(low, high, shape, dtype, endpoint=True))
    array = np.empty(shape, dtype)
    with np.errstate(all="ignore"):
        if dtype.kind == "c":
            array.real, array.imag = doubles(random, shape), doubles(random, shape)
        else:
            array[...] = doubles(random, shape).astype(dtype)
    return array


def corpus(dtype: np.dtype) -> Iterator[tuple[np.ndarray, dict[str, Any]]]:
    """(array, print options): each shape three times, always the same."""
    random = np.random.default_rng(dtype.num)
    for shape in SHAPES * 3:
        yield sample(random, shape, dtype), OPTIONS[random.integers(len(OPTIONS))]


def into_pytorch(torch: Any, array: np.ndarray) -> Any:
    """The array as PyTorch's tensor; what NumPy itself lacks crosses as its bits."""
    name = array.dtype.name
    if array.dtype.type.__module__ == "numpy":
        return torch.from_numpy(array)
    bits = np.array(array, order="C").view(np.int16 if array.itemsize == 2 else np.int8)
    return torch.from_numpy(bits).view(getattr(torch, name))


@pytest.mark.parity
@pytest.mark.parametrize("scalar", FLOATS + OTHERS, ids=lambda scalar: np.dtype(scalar).name)
def test_random_arrays_print_as_in_pytorch(scalar):
    torch = pytest.importorskip("torch")
    for array, options in corpus(np.dtype(scalar)):
        theirs = into_pytorch(torch, array)
        torch.set_printoptions(**options)
        try:
            expected = repr(theirs)
        finally:
            torch.set_printoptions(profile="default")
        with printoptions(**options):
            assert format_tensor(wrap(array)) == expected, (array.shape, options)
