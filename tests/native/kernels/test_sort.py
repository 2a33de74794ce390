"""Sorting and selecting kernels, whose loops depend on data: compiled, against the interpreter."""

import numpy as np
import pytest

from flambeau.native.kernels import sort
from flambeau.native.loop_ir.ir import (
    Affine, Buffer, Constant, If, Index, Kernel, Load, Loop, LoopKind, Store, Type, While,
)
from flambeau.native.loop_ir.printer import format_kernel
from flambeau.native.loop_ir.fingerprint import fingerprint
from flambeau.native.loop_ir.verify import VerifyError, verify

from ..conftest import check


def rows(n, count=2):
    rng = np.random.default_rng(n)
    keys = rng.integers(0, max(n // 3, 2), (count, n))
    return keys, np.tile(np.arange(n), (count, 1))


def numbers(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize("splits", [10, 1], ids=["splits", "heaps"])
@pytest.mark.parametrize("n", [1, 2, 17, 40])
def test_introsort(n, splits):
    keys, places = rows(n)
    actual, where, _ = check(sort.introsort(Type.I64), [keys, places, numbers(n, splits)], [2, n])
    np.testing.assert_array_equal(actual, np.sort(keys))
    np.testing.assert_array_equal(np.take_along_axis(keys, where, 1), actual)


@pytest.mark.parametrize("splits", [10, 0], ids=["splits", "heaps"])
def test_introselect(splits):
    keys, places = rows(40)
    ranks = numbers(0, 23)
    inputs = [keys, places, ranks, numbers(splits), numbers(40)]
    result, *_ = check(sort.introselect(Type.I64), inputs, [2, 40])
    for row, rank, sorted_row in zip(result, ranks, np.sort(keys), strict=True):
        assert row[rank] == sorted_row[rank]
        assert (row[:rank] <= row[rank]).all()


@pytest.mark.parametrize("count", [1, 2, 7])
def test_least(count):
    keys, _ = rows(30)
    empty = np.zeros((2, count), np.int64)
    inputs = [empty, empty.copy(), keys, numbers(30, count)]
    actual, where, *_ = check(sort.partial_sort(Type.I64), inputs, [2, count, 30])
    np.testing.assert_array_equal(actual, np.sort(keys)[:, :count])
    np.testing.assert_array_equal(np.take_along_axis(keys, where, 1), actual)


@pytest.mark.parametrize("rank", [0, 11, 29])
def test_quickselect(rank):
    keys, places = rows(30)
    actual, *_ = check(sort.quickselect(Type.I64), [keys, places, numbers(rank, 30)], [2, 30])
    np.testing.assert_array_equal(actual[:, rank], np.sort(keys)[:, rank])


def test_conditions_are_bool_and_outside_of_lanes():
    x, i = Buffer(Type.I64, "x"), Index("i")
    store = Store(x, Affine(0, ((i, 1),)), Constant(Type.I64, 1))
    for kind in (While, If):
        wrong = kind(Load(x, Affine(0)), [store])
        with pytest.raises(VerifyError, match="a condition of int64"):
            verify(Kernel("k", [x], [Loop(i, 3, [wrong])]))
        inside = kind(Constant(Type.BOOL, False), [store])
        with pytest.raises(VerifyError, match="over lanes"):
            verify(Kernel("k", [x], [Loop(i, 3, [inside], LoopKind.VECTORIZED)]))


def test_conditions_are_part_of_the_structure_and_shown():
    x = Buffer(Type.I64, "x")
    store = Store(x, Affine(0), Constant(Type.I64, 1))
    never = Constant(Type.BOOL, False)
    kernels = [Kernel("k", [x], [kind(never, [store])]) for kind in (While, If)]
    assert fingerprint(kernels[0]) != fingerprint(kernels[1])
    assert "while False" in format_kernel(kernels[0])
    assert "if False" in format_kernel(kernels[1])
