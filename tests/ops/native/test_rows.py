"""Softmax, layer norm, cross entropy and reductions in machine code beside NumPy's."""

from __future__ import annotations

import itertools
import math
import sys
import time
import types

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.runtime import background_jit, eager_kernels
from flambeau.native.runtime import fast_call
from flambeau.native.runtime.thread_pool import POOL
from flambeau.ops.native import pointwise, rows, scan

F = torch.nn.functional
SOFTMAX = eager_kernels.SOFTMAX
LOG_SOFTMAX = eager_kernels.LOG_SOFTMAX
SHAPES = [(1, 1), (3, 1), (1, 7), (5, 16), (7, 17), (33, 65), (2, 1031), (1031, 2)]


ROW_THRESHOLDS = (
    "MAX_COUNTED_ROW_ELEMENTS", "MAX_NUMPY_ROW_ELEMENTS", "MAX_NUMPY_SUM_ELEMENTS",
)
POINTWISE_THRESHOLDS = (
    "MAX_NUMPY_POINTWISE_ELEMENTS", "MAX_NUMPY_CHEAP_ELEMENTS", "MAX_NUMPY_COSTLY_ELEMENTS",
)


@pytest.fixture(autouse=True, params=[1, 2])
def any_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Kernels for any number of elements, on one thread and on two."""
    for name in ("native.rows", "native.scan", "activation.softmax", "normalization.norm_arrays",
                 "reduction.extremes", "reduction.reduce", "reduction.scan", "reduction.variance",
                 "reduction.vector_norms", "loss.cross_entropy"):
        for limit in (*ROW_THRESHOLDS, "MAX_NUMPY_POINTWISE_ELEMENTS"):
            monkeypatch.setattr(sys.modules[f"flambeau.ops.{name}"], limit, 0, raising=False)
    monkeypatch.setattr(fast_call, "MAX_SINGLE_THREAD_ELEMENTS", 0)
    if request.param > 1:  # of everything, pieces first
        monkeypatch.setattr(rows, "MAX_SINGLE_THREAD_ELEMENTS", 0)
    before = POOL.threads()
    POOL.set_threads(request.param)
    yield
    POOL.set_threads(before)


def ready(function, *arguments):
    """What the function gives, once it does not give None."""
    until = time.monotonic() + 120
    while (result := function(*arguments)) is None:
        assert time.monotonic() < until, "no kernel came"
        time.sleep(0.002)
    return result


def matrix(shape, dtype=np.float32, special: bool = False) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    if special and shape[0] > 4:
        x[0, 0], x[1, -1], x[2] = np.nan, np.inf, -np.inf
        x[3, 0] = -np.inf
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape, dtype) -> None:
    x, g = matrix(shape, dtype, True), matrix(shape, dtype)
    close = {"rtol": 1e-5, "atol": 1e-6}
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(1, keepdims=True))
        y = e / e.sum(1, keepdims=True)
        logs = x - x.max(1, keepdims=True) - np.log(e.sum(1, keepdims=True))
        np.testing.assert_allclose(ready(rows.run_over_rows, SOFTMAX, 1, x), y, **close)
        np.testing.assert_allclose(ready(rows.run_over_rows, LOG_SOFTMAX, -1, x), logs,
                                   **close)
    y = np.exp(matrix(shape, dtype))
    wanted = y * (g - (g * y).sum(1, keepdims=True))
    actual = ready(rows.run_over_rows, eager_kernels.SOFTMAX_BACKWARD, 1, g, y)
    np.testing.assert_allclose(actual, wanted, 1e-3, 1e-2 if dtype == np.float32 else 1e-9)
    wanted = g - np.exp(-y) * g.sum(1, keepdims=True)
    actual = ready(rows.run_over_rows, eager_kernels.LOG_SOFTMAX_BACKWARD, 1, g, -y)
    np.testing.assert_allclose(actual, wanted, 1e-3, 1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "axis"), [((3, 5, 33), 1), ((7, 17), 0), ((2, 3, 4, 5), -3),
                                             ((65, 2), -2), ((4, 1, 20), 1), ((4, 6, 1), 1)])
def test_softmax_along_other_axes(shape, axis, dtype) -> None:
    """The kernels that run down matrices agree with those along rows, special values included."""
    x, g = matrix(shape, dtype), matrix(shape, dtype)[::-1].copy()
    x.flat[0], x.flat[-1] = np.nan, -np.inf
    inputs = {SOFTMAX: (x,), LOG_SOFTMAX: (x,), eager_kernels.SOFTMAX_BACKWARD: (g, np.exp(g)),
              eager_kernels.LOG_SOFTMAX_BACKWARD: (g, -np.exp(g)),
              eager_kernels.LOG_SOFTMAX_TANGENT: (g, -np.exp(g))}
    for kernel, arrays in inputs.items():
        turned = [np.ascontiguousarray(np.moveaxis(a, axis, -1)) for a in arrays]
        wanted = np.moveaxis(ready(rows.run_over_rows, kernel, -1, *turned), -1, axis)
        actual = ready(rows.run_over_rows, kernel, axis, *arrays)
        np.testing.assert_allclose(actual, wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("affine", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm(shape, affine) -> None:
    x, g = matrix(shape), matrix(shape)[::-1].copy()
    w, b = (matrix((1, shape[1]))[0] + i if is_affine else None
            for i, is_affine in enumerate(affine))
    mean, rstd = np.empty((2, shape[0]), "f")
    y = ready(rows.layer_norm, x, w, b, mean, rstd, 1e-3)
    tx = torch.from_numpy(x.astype("d")).requires_grad_()
    tw, tb = (None if v is None else torch.from_numpy(v.astype("d")).requires_grad_()
              for v in (w, b))
    centre = tx.mean(1, True)
    ty = (tx - centre) / ((tx - centre) ** 2).mean(1, True).add(1e-3).sqrt()
    hat = ty
    ty = ty if tw is None else ty * tw
    ty = ty if tb is None else ty + tb
    np.testing.assert_allclose(y, ty.detach().numpy(), 1e-4, 1e-5)
    np.testing.assert_allclose(mean, x.mean(1), 1e-4, 1e-5)
    np.testing.assert_allclose(rstd, 1 / np.sqrt(x.var(1) + 1e-3), 1e-4)
    (ty * torch.from_numpy(g.astype("d"))).sum().backward()
    gx, gw, gb = ready(rows.layer_norm_backward, g, x, w, mean, rstd)
    np.testing.assert_allclose(gx, tx.grad.numpy(), 1e-3, 1e-3)
    np.testing.assert_allclose(gw, (g * hat.detach().numpy()).sum(0), 1e-3, 1e-3)
    np.testing.assert_allclose(gb, g.sum(0), 1e-3, 1e-3)


@pytest.mark.parametrize("axes", [None, (1,), (0,), (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape", [*SHAPES, (3, 5003)])
def test_reductions(shape, axes, keepdims: bool) -> None:
    x = matrix(shape)
    for ufunc in (np.add, np.maximum, np.minimum):
        actual = ready(rows.reduce_axes, ufunc, x, axes, keepdims)
        wanted = ufunc.reduce(x.astype("d"), axes, keepdims=keepdims)
        assert actual.shape == wanted.shape
        np.testing.assert_allclose(actual, wanted, 1e-4, 1e-3)
    special = matrix(shape, special=True)
    actual = ready(rows.reduce_axes, np.maximum, special, axes, keepdims)
    np.testing.assert_array_equal(actual, np.maximum.reduce(special, axes, keepdims=keepdims))
    squares = ready(rows.reduce_axes, np.add, x, axes, keepdims, "square")
    np.testing.assert_allclose(squares, (x * x).sum(axes, keepdims=keepdims), 1e-4, 1e-4)


@pytest.mark.parametrize("axes", [None, (2,), (0, 1), (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 16), (2, 3, 17), (5, 7, 40), (1, 3, 1031), (400, 2, 20)])
def test_reductions_of_rows_with_gaps(shape, axes, keepdims: bool) -> None:
    wide = np.random.default_rng(0).normal(size=(*shape[:-1], 2 * shape[-1] + 3)).astype("f")
    for x in (wide[..., 2 : 2 + shape[-1]], wide[..., 1 : 2 * shape[-1] : 2], wide[..., 3::2]):
        for ufunc in (np.add, np.maximum):
            actual = ready(rows._reduce_strided_rows, ufunc, x, axes, keepdims, "same")
            wanted = ufunc.reduce(x.astype("d"), axes, keepdims=keepdims)
            assert actual.shape == wanted.shape
            np.testing.assert_allclose(actual, wanted, 1e-4, 1e-4)


def test_other_gaps_are_copied() -> None:
    x = np.zeros((8, 9, 40), "f")
    for view in (x[:, 1:, 1:], x[..., ::3], x[:, ::-1, 1:], x.transpose(1, 0, 2), x[..., :3],
                 x[:, 1:, ::2], x[:, ::-1, ::2], x[0, 0, ::2], x[..., ::-2]):
        assert rows._reduce_strided_rows(np.add, view, None, False, "same") is None


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("axes", [None, (1,), (0,)])
def test_sums_of_what_is_known(axes, dtype) -> None:
    x = matrix((33, 65), dtype, special=True)
    x[np.isinf(x)] = 3
    actual = ready(rows.reduce_axes, np.add, x, axes, False, "known")
    np.testing.assert_allclose(actual, np.nansum(x.astype("d"), axes), 1e-4, 1e-4)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("shape", [(5, 16), (7, 17), (2, 1031), (3, 4, 5)])
def test_scans_of_integers(shape, dtype) -> None:
    x = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    for ufunc in (np.add, np.multiply, np.maximum, np.minimum):
        for axis in range(x.ndim):
            (actual,) = ready(scan.scan_axis, ufunc, x, axis)
            np.testing.assert_array_equal(actual, ufunc.accumulate(x, axis, dtype))
            assert actual.dtype == dtype


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (2,), (1,), (0, 2), (1, 3), (0, 2, 3), (0, 3)])
def test_reductions_of_more_axes(axes: tuple[int, ...], keepdims: bool) -> None:
    shape = (3, 33, 4, 17) if 3 in axes else (5, 17, 33)
    x = np.random.default_rng(0).normal(size=shape).astype("f")
    for ufunc in (np.add, np.maximum, np.multiply):
        actual = ready(rows.reduce_axes, ufunc, x, axes, keepdims)
        wanted = ufunc.reduce(x.astype("d"), axes, keepdims=keepdims)
        np.testing.assert_allclose(actual, wanted, 1e-4, 1e-5)
    squares = ready(rows.reduce_axes, np.add, x, axes, keepdims, "square")
    np.testing.assert_allclose(squares, (x * x).sum(axes, keepdims=keepdims), 1e-4, 1e-4)


def test_short_axes_apart_are_left_to_numpy() -> None:
    x = np.ones((9, 17, 3), "f")
    for _ in range(3):
        assert rows.reduce_axes(np.add, x, (0, 2), False) is None


@pytest.mark.parametrize("shape", SHAPES)
def test_positions(shape) -> None:
    x = np.round(matrix(shape, special=True), 1)
    for find in (np.argmax, np.argmin):
        np.testing.assert_array_equal(ready(rows.find_extreme, find, x, -1), find(x, -1))


@pytest.mark.parametrize("dtype", ["f", "uint8", "int32", "int64"])
@pytest.mark.parametrize("shape", [*SHAPES, (3, 4, 17), (130, 65)])
def test_positions_along_either_end(shape, dtype) -> None:
    x = (np.random.default_rng(0).normal(size=shape) * 3).astype("int64").astype(dtype)
    for find, axis, array in itertools.product((np.argmax, np.argmin), (0, -1), (x, x.T.copy())):
        np.testing.assert_array_equal(ready(rows.find_extreme, find, array, axis),
                                      find(array, axis))


@pytest.mark.parametrize("kind", ["uint8", "int32", "int64"])
@pytest.mark.parametrize("axes", [None, (0,), (1,)])
@pytest.mark.parametrize("shape", [*SHAPES, (3, 5003)])
def test_integers(shape, axes, kind) -> None:
    """Extremes keep the dtype; products are int64, and wrap around there."""
    x = np.random.default_rng(0).integers(0, 200, shape).astype(kind)
    for ufunc, dtype in ((np.maximum, None), (np.minimum, None), (np.multiply, np.int64)):
        actual = ready(rows.reduce_axes, ufunc, x, axes, False)
        wanted = ufunc.reduce(x, axes, dtype)
        assert actual.dtype == wanted.dtype
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("x", [
    torch.rand(40, 70).t(), torch.rand(40, 70)[:, ::2], torch.rand(40, 70)[:, ::3],
    torch.rand(40, 70)[::2, 1:], torch.rand(7, 5, 30).transpose(0, 1),
])
def test_operators_on_views(x: torch.Tensor) -> None:
    """What goes over rows copies what does not lie so first."""
    y = x.contiguous()
    functions = [
        lambda x: x.softmax(-1), lambda x: x.log_softmax(-1), lambda x: x.cumsum(-1),
        lambda x: x.cummax(-1).indices, lambda x: x.logsumexp(-1), lambda x: x.argmax(-1),
        lambda x: x.argmin(0), lambda x: x.max(0).values, lambda x: F.mse_loss(x, x * 2),
        lambda x: F.huber_loss(x, x.flip(0)),
    ]
    for _, function in itertools.product(range(20), functions):  # NumPy's until kernels are there
        torch.testing.assert_close(function(x), function(y))


@pytest.mark.parametrize(("shape", "axis"), [
    ((1, 1), 1), ((7, 17), 1), ((7, 17), 0), ((2, 1031), 1), ((1031,), 0), ((3, 4, 17), 1),
])
@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("special", [False, True])
def test_logcumsumexp(shape, axis, dtype, special, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in POINTWISE_THRESHOLDS:
        monkeypatch.setattr(pointwise, name, 0)
    x = (np.random.default_rng(0).normal(size=shape) * 30).astype(dtype)
    if special and x.size > 100:
        flat = x.reshape(-1)
        flat[:7], flat[40:43], flat[60], flat[100] = -np.inf, -np.inf, np.inf, np.nan
    actual = ready(scan.logcumsumexp, x, axis)
    assert actual.dtype == x.dtype
    assert actual.flags.c_contiguous
    with np.errstate(all="ignore"):
        wanted = np.logaddexp.accumulate(x.astype("d"), axis)
    np.testing.assert_allclose(actual, wanted, 1e-5 if dtype == "f" else 1e-12)


@pytest.mark.parametrize("dim", [None, 0, 1, 2, (0, 1), (0, 2)])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_variances(dim, dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in POINTWISE_THRESHOLDS:
        monkeypatch.setattr(pointwise, name, 0)
    x = (np.random.default_rng(0).normal(size=(9, 17, 33)) + 100).astype(dtype)
    for view in (x, x.transpose(2, 0, 1), x[..., ::2]):
        exact = view.astype("d")
        for _, keepdim in itertools.product(range(6), (False, True)):
            y = torch.from_numpy(view)
            actual = y.var(dim, correction=2, keepdim=keepdim)
            wanted = exact.var(dim, ddof=2, keepdims=keepdim)
            assert actual.shape == wanted.shape
            np.testing.assert_allclose(actual.numpy(), wanted, 1e-4 if dtype == "f" else 1e-11)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_products_with_a_vector(shape, dtype) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    v, u = (np.random.default_rng(1).normal(size=n).astype(dtype) for n in (shape[1], shape[0]))
    for a, b in ((x, v), (x.T, u)):
        actual = ready(rows.multiply_by_vector, a, b)
        assert actual.dtype == a.dtype
        np.testing.assert_allclose(actual, a.astype("d") @ b.astype("d"), 1e-4, 1e-4)
    assert rows.multiply_by_vector(x, v.astype("f" if dtype == "d" else "d")) is None
    assert rows.multiply_by_vector(x, np.repeat(v, 2)[::2]) is None or v.size == 1


@pytest.mark.parametrize("shape", [(1, 3), (7, 17), (33, 65), (2, 1031), (1031, 2)])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_statistics_of_columns(shape, dtype) -> None:
    g, x = (np.random.default_rng(k).normal(size=shape).astype(dtype) + 3 for k in (0, 1))
    mean = x.mean(0)
    apart = x.astype("d") - mean
    np.testing.assert_allclose(ready(rows.column_squares, x, mean), (apart**2).sum(0), 1e-4)
    of_g, of_product = ready(rows.column_products, g, x, mean)
    np.testing.assert_allclose(of_g, g.sum(0), 1e-4)
    np.testing.assert_allclose(of_product, (g * apart).sum(0), 1e-3, 1e-3)


@pytest.mark.parametrize("shape", [(9, 17), (64, 33), (40, 103)])
def test_batch_norm_of_columns(shape) -> None:
    """Against the formulas in float64, with its gradients and running statistics."""
    draw = np.random.default_rng(0)
    x, g = draw.normal(size=shape) * 2 + 5, draw.normal(size=shape)
    w, b = draw.normal(size=(2, shape[1]))
    hat = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
    share = g * w
    slope = (share - share.mean(0) - hat * (share * hat).mean(0)) / np.sqrt(x.var(0) + 1e-5)
    for _ in range(5):
        leaves = [torch.tensor(v).float().requires_grad_() for v in (x, w, b)]
        mean, var = torch.zeros(shape[1]), torch.ones(shape[1])
        y = F.batch_norm(leaves[0], mean, var, *leaves[1:], training=True)
        y.backward(torch.tensor(g).float())
        wanted = (hat * w + b, slope, (g * hat).sum(0), g.sum(0), x.mean(0) * 0.1,
                  0.9 + x.var(0, ddof=1) * 0.1)
        results = (y.detach(), *[v.grad for v in leaves], mean, var)
        for result, other in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result.numpy(), other, 2e-4, 2e-4)


@pytest.mark.parametrize("size", [1, 17, 4096, 4097, 12_289])
def test_dot(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["flambeau.ops.linalg.matmul"]
    monkeypatch.setattr(module, "MAX_COUNTED_ROW_ELEMENTS", 0)
    monkeypatch.setattr(module, "MIN_PRODUCT_LHS_ELEMENTS", -1)
    monkeypatch.setattr(rows, "_ready", {})
    a, b = np.random.default_rng(0).normal(size=(2, size))
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    forms = [(x, y), (x[None], y[:, None]), (x[None], y), (x, y[:, None])]
    for _, (left, right) in itertools.product(range(5), forms):
        actual = left @ right
        np.testing.assert_allclose(actual.numpy(), left.numpy() @ right.numpy(), 1e-12, 1e-12)
        assert actual.shape == (left.numpy() @ right.numpy()).shape
    assert any(key[0] is eager_kernels.FOLD_ROWS for key in rows._ready)


def test_arrays_of_middle_size_want_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_COUNTED_ROW_ELEMENTS", 1 << 20)
    monkeypatch.setattr(rows, "_ready", {})
    monkeypatch.setattr(rows, "_calls", background_jit.CallCounts(8))
    monkeypatch.setattr(background_jit, "CALLS_BEFORE_COMPILING", 3)
    monkeypatch.setattr(background_jit, "CALLS_BEFORE_USE", 9)
    asked: list[tuple] = []

    def ask(key, build):
        asked.append(key)
        return types.SimpleNamespace(address=7) if len(asked) > 1 else None

    monkeypatch.setattr(rows, "request_kernel", ask)
    x = matrix((33, 65))
    addresses = [rows.request_row_kernel(SOFTMAX, x) for _ in range(20)]
    assert addresses == [None] * 9 + [7] * 11
    assert len(asked) == 2
    monkeypatch.setattr(rows, "MAX_NUMPY_ROW_ELEMENTS", x.size)
    assert rows.run_over_rows(SOFTMAX, 1, x) is None


def test_what_does_not_fit_is_left_to_numpy() -> None:
    x = matrix((4, 6))
    for other in (x.astype("i"), x.astype(">f4")):
        assert rows.run_over_rows(SOFTMAX, 1, other) is None
    assert rows.run_over_rows(eager_kernels.SOFTMAX_BACKWARD, 1, x, x.astype("d")) is None
    assert rows.reduce_axes(np.add, np.broadcast_to(x[0], x.shape), None, False) is None


@pytest.mark.parametrize("axes", [None, (0,), (1,), (2,)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_of_axes_in_another_order(axes, keepdims) -> None:
    x = matrix((9, 70), np.float64).reshape(9, 7, 10)
    for other in (x.transpose(2, 0, 1), x.transpose(0, 2, 1)[::2, :, 1:], x[:, :-1]):
        actual = ready(rows.reduce_axes, np.add, other, axes, keepdims)
        np.testing.assert_allclose(actual, other.sum(axes, keepdims=keepdims))
        assert actual.shape == np.sum(other, axes, keepdims=keepdims).shape


@pytest.mark.parametrize("shape", [(1, 7), (9, 33), (3, 4, 17)])
@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.minimum])
def test_scans(ufunc, shape) -> None:
    x = np.round(np.random.default_rng(0).normal(size=shape) * 2) / 2
    x[..., 5], x[0, ..., 3] = np.nan, 1.0
    for axis in range(len(shape)):
        extremes = ufunc in (np.maximum, np.minimum)
        values, *places = ready(scan.scan_axis, ufunc, x, axis, extremes)
        np.testing.assert_allclose(values, ufunc.accumulate(x, axis), 1e-12)
        for array in places:
            along = np.moveaxis(x, axis, -1).reshape(-1, shape[axis])
            for row, chosen in zip(along, np.moveaxis(array, axis, -1).reshape(along.shape),
                                   strict=True):
                for k, at in enumerate(chosen):
                    best = ufunc.reduce(row[: k + 1])
                    same = np.flatnonzero((row[: k + 1] == best) | np.isnan(row[: k + 1] + best))
                    assert at == (same[-1] if not np.isnan(best) else
                                  np.flatnonzero(np.isnan(row[: k + 1]))[-1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_worked_out_in_float32(dtype) -> None:
    x = torch.from_numpy(matrix((33, 65))).to(dtype)
    g = x.flip(0)
    w, b = (torch.from_numpy(matrix((1, 65))[0] + i).to(dtype) for i in (1, 2))
    functions = [
        lambda v, g: (v.sum(), v.sum(0), v.mean(1), v.amax(), v.amin(0), v.argmax(1), v.norm(),
                      v.norm(math.inf, 1), v.logsumexp(1), v.cumsum(1), v.norm(1, 1)),
        lambda v, g: (v.softmax(1), *torch.autograd.grad(v.softmax(1), v, g)),
        lambda v, g: (v.log_softmax(1), *torch.autograd.grad(v.log_softmax(1), v, g)),
        lambda v, g: torch.autograd.grad(F.layer_norm(v, (65,), *(p.to(v.dtype) for p in (w, b))),
                                         v, g),
    ]
    for function in functions:
        wanted = function(x.double().requires_grad_(), g.double())
        for _ in range(3):  # with kernels from the second call on
            actual = function(x.detach().requires_grad_(), g)
            for y, exact in zip(actual, wanted, strict=True):
                assert y.dtype == (exact.dtype if exact.dtype == torch.int64 else dtype)
                torch.testing.assert_close(y.double(), exact.double(), rtol=1e-2, atol=3e-2)
    assert {k[1].name for k in rows._ready} >= {str(dtype).removeprefix("torch.")}
    ones = torch.ones(1 << 12).to(dtype) / 8
    assert [float(ones.sum()) for _ in range(3)] == [512.0] * 3


def test_operators() -> None:
    """The public functions with kernels in place, beside double precision's by NumPy."""
    x = torch.from_numpy(matrix((33, 65))).requires_grad_()
    target = torch.arange(33) % 65
    for _ in range(200):
        x.grad = None
        F.cross_entropy(x, target).backward()
        F.layer_norm(x, (65,)).sum(), x.softmax(-1), x.max(1), x.mean(0), x.amax(), x.argmax(1)
        time.sleep(0.001)
    wide = torch.from_numpy(matrix((33, 65), np.float64)).requires_grad_()
    F.cross_entropy(wide, target).backward()
    np.testing.assert_allclose(x.grad.numpy(), wide.grad.numpy(), 1e-4, 1e-6)
    with torch.no_grad():
        for f in (lambda x: F.layer_norm(x, (65,)), lambda x: x.softmax(-1), lambda x: x.mean(0),
                  lambda x: x.max(1).values, lambda x: x.amax(), lambda x: x.sum(1)):
            np.testing.assert_allclose(f(x).numpy(), f(wide).numpy(), 1e-4, 1e-5)
        assert torch.equal(x.argmax(1), wide.argmax(1))


@pytest.mark.parametrize("kind", ["bool", "uint8", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("shape", [(70_001,), (40, 41, 43)])
def test_integers_are_added_up_in_int64(kind, shape) -> None:
    high = {"bool": 2, "uint8": 256, "int8": 128, "int16": 1 << 15}.get(kind, 1 << 31)
    low = 0 if kind in ("bool", "uint8") else -high
    drawn = np.random.default_rng(0).integers(low, high, shape).astype(kind)
    x = torch.from_numpy(drawn)
    for axes in [None, (0,)] if len(shape) == 1 else [None, (0,), (2,), (1,), (0, 1), (0, 2)]:
        cut = (slice(None),) * (len(shape) - 1) + (slice(0, -1),)  # rows with gaps between them
        for tensor, own in ((x, drawn), (x[cut], drawn[cut])):
            wanted = own.sum(axes, dtype=np.int64)
            for _ in range(3):  # array code, then the kernel
                y = tensor.sum() if axes is None else tensor.sum(axes)
                assert y.dtype == torch.int64
                np.testing.assert_array_equal(y.numpy(), wanted)
    turned = x.transpose(0, -1)
    for _ in range(3):
        np.testing.assert_array_equal(turned.sum(0).numpy(), drawn.T.sum(0))
    assert any(key[0].name.startswith("reduce") and key[1] == drawn.dtype for key in rows._ready)
