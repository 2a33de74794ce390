"""Sorting and selecting: where equal elements come is where PyTorch's algorithms leave them.

What is expected of ties was written down from PyTorch 2.13 on a CPU.
"""

import re

import numpy as np
import pytest

import flambeau as torch
from flambeau.ops.reduction import sort_kernels

X = torch.arange(70) * 37 % 11
SORTED = [11, 44, 22, 55, 66, 0, 33, 3, 69, 47, 14, 25, 58, 36, 39, 50, 17, 61, 28, 6]
FALLING = [41, 52, 8, 63, 19, 30, 27, 49, 38, 5, 60, 16, 13, 24, 57, 46, 35, 2, 68, 32]
LEAST = [0, 44, 22, 33, 66, 55, 11, 14, 47, 25, 36, 58, 3, 69, 61, 28, 39, 50, 17, 6, 42, 64, 9, 53,
         20, 31, 67, 1, 34, 56]
KINDS = [torch.int64, torch.uint8, torch.float32, torch.float64, torch.bfloat16]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_ties_of_sort(kind):
    x = X.to(kind)
    assert x.sort()[1][:20].tolist() == SORTED
    assert x.argsort(descending=True)[:20].tolist() == FALLING
    assert torch.stack([x, x], 1).sort(0)[1][:20, 1].tolist() == SORTED


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_ties_of_selection(kind):
    x = X.to(kind)
    assert x.topk(9)[1].tolist() == [30, 41, 19, 63, 8, 52, 16, 60, 5]
    assert x.topk(1)[1].tolist() == [8]
    assert x.topk(30, largest=False)[1].tolist() == LEAST
    assert [x.kthvalue(k)[1].item() for k in (1, 7, 20, 35, 70)] == [22, 11, 17, 26, 41]
    assert x.median(0)[1].item() == 15
    assert (X // 3).to(kind).mode()[1].item() == 58


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "int16"])
@pytest.mark.parametrize("descending", [False, True])
def test_stable(kind, descending):
    x = np.random.default_rng(0).integers(-50, 50, (3, 200)).astype(kind)
    values, where = torch.sort(torch.from_numpy(x), stable=True, descending=descending)
    expected = np.argsort(-x if descending else x, 1, kind="stable")
    np.testing.assert_array_equal(where.numpy(), expected)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected, 1))


def test_wide_integers():
    x = torch.tensor([2**62, -(2**62), 5, 2**62, 7])
    assert x.sort(stable=True)[1].tolist() == [1, 2, 4, 0, 3]
    assert x.topk(2)[0].tolist() == [2**62, 2**62]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_nan_is_greatest_and_zeros_are_equal(kind):
    x = torch.tensor([1.0, float("nan"), -0.0, float("-inf"), 0.0, -float("nan")], dtype=kind)
    assert x.sort()[1].tolist() == [3, 2, 4, 0, 1, 5]
    assert x.sort(descending=True, stable=True)[1].tolist() == [1, 5, 0, 2, 4, 3]
    assert x.kthvalue(4)[0].item() == 1
    assert torch.signbit(x.sort()[0]).tolist()[1:3] == [True, False]


@pytest.mark.parametrize("count", [1, 3, 60, 99, 100])
def test_more_ties_than_are_gone_through(count, monkeypatch):
    """Then they come in the order of their places."""
    monkeypatch.setattr(sort_kernels, "MAX_SORTED_TIE_ELEMENTS", 0)
    monkeypatch.setattr(sort_kernels, "MAX_SELECTED_TIE_ELEMENTS", 0)
    x = np.random.default_rng(0).integers(0, 9, (4, 100))
    k = sort_kernels.map_to_keys(x)
    expected = np.argsort(x, 1, kind="stable")
    np.testing.assert_array_equal(sort_kernels.sort_numbers(k, False), expected)
    np.testing.assert_array_equal(sort_kernels.find_least(k, count), expected[:, :count])
    np.testing.assert_array_equal(
        sort_kernels.rank_numbers(k, count - 1, False), expected[:, count - 1]
    )
    for row, place in zip(x, sort_kernels.find_commonest(k), strict=True):
        values, counts = np.unique(row, return_counts=True)
        assert place == np.flatnonzero(row == values[counts.argmax()])[-1]


@pytest.mark.parametrize("kind", ["float32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("spread", [7, 10**6])
def test_unique(kind, spread):
    x = np.random.default_rng(0).integers(0, spread, (30, 40)).astype(kind)
    expected = np.unique(x, return_inverse=True, return_counts=True)
    actual = torch.unique(torch.from_numpy(x), return_inverse=True, return_counts=True)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    np.testing.assert_array_equal(torch.unique(torch.from_numpy(x)).numpy(), expected[0])


def test_each_nan_is_unique():
    x = torch.tensor([float("nan"), 1.0, float("nan"), 1.0])
    values, counts = torch.unique(x, return_counts=True)
    assert values.isnan().tolist() == [False, True, True]
    assert counts.tolist() == [2, 1, 1]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 50])
@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "uint8", "bool"])
def test_few_elements_are_sorted_as_many_are(kind, n, descending, monkeypatch) -> None:
    draw = np.random.default_rng(n)
    for x in (draw.normal(size=(3, n)) * 100, draw.integers(0, 4, (3, n))):
        x = x.astype(kind)
        if kind.startswith("f") and n > 2:
            x[0, 0], x[1, 1], x[2, :2] = np.nan, np.inf, (0.0, -0.0)
        short = torch.from_numpy(x).sort(-1, descending)
        with monkeypatch.context() as m:
            m.setattr(sort_kernels, "sort_small", lambda *_: None)
            long = torch.from_numpy(x).sort(-1, descending)
        np.testing.assert_array_equal(short[1].numpy(), long[1].numpy())
        np.testing.assert_array_equal(short[0].numpy(), long[0].numpy())


@pytest.mark.parametrize("n", [2, 5, 16, 20])
def test_all_of_a_short_row_are_chosen_as_by_selection(n: int) -> None:
    x = np.random.default_rng(n).integers(0, 3, (20, n))
    wanted = sort_kernels._select_as_cpp(sort_kernels.map_to_keys(x, True), n)
    np.testing.assert_array_equal(torch.from_numpy(x).topk(n)[1].numpy(), wanted)


@pytest.mark.parametrize("shape", [(10000, 7), (500, 50), (64, 300)])
def test_least_of_many_short_rows(shape) -> None:
    x = np.random.default_rng(0).permuted(np.tile(np.arange(shape[1]), (shape[0], 1)), axis=1)
    actual, where = torch.from_numpy(x).topk(3, largest=False)
    np.testing.assert_array_equal(actual.numpy(), np.tile([0, 1, 2], (shape[0], 1)))
    np.testing.assert_array_equal(where.numpy(), np.argsort(x, 1)[:, :3])


SHORT_ROWS = {
    "distinct": [3.0, -1.0, 7.5, 0.25, -8.0], "one": [2.0], "equal": [1.0, 2.0, 1.0, 0.5],
    "zeros": [0.0, -0.0, 1.0], "NaN": [1.0, float("nan"), 0.5], "only NaN": [float("nan")],
    "infinite": [float("inf"), 1.0, float("-inf")],
}


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int64, torch.uint8])
@pytest.mark.parametrize("name", SHORT_ROWS)
def test_few_elements_go_a_short_way_to_the_same_result(name, kind, monkeypatch) -> None:
    if not kind.is_floating_point and ("NaN" in name or name == "infinite"):
        pytest.skip("no integers")
    x = torch.tensor(SHORT_ROWS[name]).abs().to(kind) if kind == torch.uint8 \
        else torch.tensor(SHORT_ROWS[name]).to(kind)

    def compute():
        for k in range(1, len(x) + 1):
            yield from (*x.topk(k), *x.topk(k, largest=False), *x.kthvalue(k))
            yield from x.kthvalue(k, keepdim=True)
        yield from (*x.median(0), *x.median(0, True), x.median(), x.nanmedian(), *x.nanmedian(0))
        yield from (*x.max(0), *x.min(0), *x.max(0, keepdim=True))

    short = list(compute())
    monkeypatch.setattr(sort_kernels, "sort_distinct", lambda *a: None)
    for y, expected in zip(short, compute(), strict=True):
        assert y.dtype == expected.dtype
        assert y.shape == expected.shape
        np.testing.assert_array_equal(y.numpy(), expected.numpy())


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_gradients_of_medians_are_shared(name):
    x = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 0.0], requires_grad=True)
    getattr(torch, name)(x).backward()
    assert x.grad.tolist() == pytest.approx([0, 1 / 3] * 3)
    nan = torch.tensor([float("nan"), 2.0, 2.0], requires_grad=True)
    getattr(torch, name)(nan).backward()
    assert nan.grad.tolist() == ([1, 0, 0] if name == "median" else [0, 0.5, 0.5])


def test_bisection_goes_right_of_each_nan(torch):
    nan, inf = float("nan"), float("inf")
    values = torch.tensor([nan, inf, 0.0, 2.0, -inf])
    row = torch.tensor([-1.0, 0.0, 1.0, inf, nan])
    assert torch.bucketize(values, row).tolist() == [5, 5, 1, 5, 0]
    assert torch.searchsorted(row, values, right=True).tolist() == [5, 5, 2, 5, 0]
    row = torch.tensor([0.0, nan, nan, nan])
    assert torch.bucketize(torch.tensor([nan, 1.0]), row).tolist() == [4, 4]


@pytest.mark.parametrize("q", [float("nan"), 1.5, -1])
def test_quantiles_lie_between_0_and_1(q: float) -> None:
    x = torch.tensor([1.0, 2.0])
    for function in (torch.quantile, torch.nanquantile):
        text = f"quantile() q must be in the range [0, 1] but got {q:g}"
        with pytest.raises(RuntimeError, match=f"^{re.escape(text)}"):
            function(x, q)
        with pytest.raises(RuntimeError, match=r"^quantile\(\) q values must be in the range"):
            function(x, torch.tensor([0.5, q]))
