"""Pointwise operators in machine code: the same results as NumPy's, also where they are special."""

from __future__ import annotations

import itertools
import sys
import time

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.jit.kernel_function import compile_all
from flambeau.native.kernels.pointwise import pointwise
from flambeau.native.loop_ir.ir import Type
from flambeau.native.runtime.thread_pool import POOL
from flambeau.native.runtime import fast_call
from flambeau.ops.pointwise import extrema, rounding
from flambeau.ops.native import pointwise as pointwise_native
from flambeau.ops.activation.rectifiers import rectify
from flambeau.ops.core.operator import OPERATORS, Kind

F = torch.nn.functional
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 3.0, 20.0, -20.0, 1e-30]


THRESHOLDS = (
    "MAX_NUMPY_POINTWISE_ELEMENTS", "MAX_NUMPY_CHEAP_ELEMENTS", "MAX_NUMPY_COSTLY_ELEMENTS",
)


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for few elements, on two threads."""
    for module in ("core.dispatch", "core.function_writer", "core.promotion"):
        monkeypatch.setattr(sys.modules[f"flambeau.ops.{module}"],
                            "MAX_NUMPY_COSTLY_ELEMENTS", 3)
    monkeypatch.setattr(sys.modules["flambeau.ops.indexing.index"],
                        "MAX_NUMPY_POINTWISE_ELEMENTS", 3)
    monkeypatch.setattr(fast_call, "MAX_SINGLE_THREAD_ELEMENTS", 3)
    for name in THRESHOLDS:
        monkeypatch.setattr(pointwise_native, name, 3)
    for name in ("_ready", "_straight"):
        monkeypatch.setattr(pointwise_native, name, {})


def ready(body, *operands):
    """The kernel's result, once there is one."""
    until = time.monotonic() + 120
    while (result := pointwise_native.try_kernel(body, *operands)) is None:
        assert time.monotonic() < until, "no kernel came"
        time.sleep(0.002)
    return result


def plain_operators():
    for operator in OPERATORS.values():
        if operator.kind is not Kind.POINTWISE:
            continue
        count = len(operator.tensor_positions)
        if count == len(operator.parameters) <= 2:
            body = operator.ufunc or operator.body
            try:
                pointwise(body, [(Type.F32, "full")] * count)
            except (NotImplementedError, TypeError, AttributeError):
                continue
            yield pytest.param(body, count, id=operator.name)


PLAIN = list(plain_operators())


@pytest.fixture(scope="module", autouse=True)
def made_together():
    """All the kernels, compiled at once."""
    compile_all([pointwise(p.values[0], [(Type(kind), "full")] * p.values[1])
                 for p in PLAIN for kind in ("float32", "float64")], 2)


def inputs(count: int, dtype, n: int = 1001) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=n) * 3).astype(dtype)
    x[: len(SPECIAL)] = SPECIAL
    if count == 1:
        return [x]
    y = (rng.normal(size=n) * 3).astype(dtype)
    pairs = np.array(np.meshgrid(SPECIAL, SPECIAL), dtype).reshape(2, -1)
    return [np.concatenate([pairs[0], x]), np.concatenate([pairs[1], y])]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("body", "count"), PLAIN)
def test_agrees_with_the_body(body, count: int, dtype) -> None:
    arrays = inputs(count, dtype)
    with np.errstate(all="ignore"):
        wanted = body(*[x[:] for x in arrays])
        actual = ready(body, *arrays)
    assert actual.dtype == wanted.dtype
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(actual, wanted, tolerance, tolerance)
    if wanted.dtype.kind == "f" and body is not rectify.operator.ufunc:  # either zero's maximum
        zeros = (wanted == 0) & (actual == 0)
        np.testing.assert_array_equal(np.signbit(actual[zeros]), np.signbit(wanted[zeros]))


HALF_FORMULAS = {
    "number": lambda x, y: x * 3, "reflected": lambda x, y: 1 - x, "gelu": lambda x, y: F.gelu(x),
    "alpha": lambda x, y: x.add(y, alpha=0.5), "row": lambda x, y: x + y[0],
    "mask": lambda x, y: torch.where(x > y, x, y), "slope": lambda x, y: F.leaky_relu(x, 0.3),
}


@pytest.mark.parametrize("name", HALF_FORMULAS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_with_others(name: str, dtype) -> None:
    x, y = (torch.from_numpy(v[-77:].reshape(7, 11)).to(dtype) for v in inputs(2, np.float32))
    wanted = HALF_FORMULAS[name](x.float(), y.float()).to(dtype)
    for _ in range(3):  # with a kernel from the second call on
        actual = HALF_FORMULAS[name](x, y)
        assert actual.dtype == dtype
        torch.testing.assert_close(actual.float(), wanted.float(), rtol=1e-2, atol=1e-6)
    assert any(v.__class__ is tuple for v in pointwise_native._ready.values())


@pytest.mark.parametrize(("x", "y"), [
    (np.arange(4.0)[:, None], np.arange(5.0)), (np.arange(5.0), np.arange(4.0)[:, None]),
    (np.arange(4.0)[:, None], None),
    (np.array(3.0), np.ones((4, 5))), (np.ones((4, 5)), np.arange(4.0)[:, None]),
])
def test_stretched_views(x, y) -> None:
    full = np.arange(20.0).reshape(4, 5)
    x = np.broadcast_to(x * 2, (4, 5))
    y = full if y is None else np.broadcast_to(y * 3, (4, 5))
    np.testing.assert_array_equal(ready(np.add, x, y), x + y)


def test_sums_with_a_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["flambeau.ops.pointwise.arithmetic"],
                        "MAX_NUMPY_POINTWISE_ELEMENTS", 3)
    x, y = (torch.from_numpy(v[-77:].copy()).requires_grad_() for v in inputs(2, np.float32))
    for function in (lambda a, b: a.add(b, alpha=0.5), lambda a, b: a.sub(b, alpha=-0.5),
                     lambda a, b: a.clone().add_(b, alpha=0.5),
                     lambda a, b: a.clone().sub_(b, alpha=-0.5)):
        for _ in range(3):
            actual = function(x, y)
            torch.testing.assert_close(actual, x + 0.5 * y)
            gx, gy = torch.autograd.grad(actual.sum(), (x, y))
            assert torch.equal(gx, torch.ones(77))
            assert torch.equal(gy, torch.full((77,), 0.5))


@pytest.mark.parametrize("body", [np.fmod, np.floor_divide, np.hypot])
def test_divisions(body) -> None:
    draw = np.random.default_rng(0)
    for scale in (1.0, 1e20, 1e-20):
        x, y = inputs(2, np.float32)
        x = np.r_[x, draw.normal(size=500) * scale, np.arange(-50, 50)].astype(np.float32)
        y = np.r_[y, draw.normal(size=500) * draw.choice([1, scale], 500), np.full(100, 5)]
        y = y.astype(np.float32)
        with np.errstate(all="ignore"):
            wanted = body(x, y)
            actual = ready(body, x, y)
        np.testing.assert_allclose(actual, wanted, 1e-7 if body is np.hypot else 0)
        zeros = wanted == 0
        np.testing.assert_array_equal(np.signbit(actual[zeros]), np.signbit(wanted[zeros]))


def test_enough_of_them() -> None:
    names = {p.id for p in PLAIN}
    assert {"_add", "mul", "_div", "exp", "log", "tanh", "sigmoid", "relu_only", "sqrt", "sin",
            "erf", "_silu", "silu_backward", "tanh_backward", "maximum", "le", "erfc", "fmod",
            "remainder", "floor_divide", "log10", "hypot"} <= names


@pytest.mark.parametrize("n", [4, 15, 16, 17, 63, 64, 65, 1024, 1031])
@pytest.mark.parametrize("threads", [1, 2])
def test_sizes_and_margins(n: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = POOL.threads()
    POOL.set_threads(threads)
    room = np.full(n + 32, 7.0, np.float32)
    monkeypatch.setattr(pointwise_native.np, "empty_like", lambda x, kind: room[16 : n + 16])
    x = np.linspace(-3, 3, n + 32, dtype=np.float32)
    x[:16] = x[n + 16 :] = np.nan
    try:
        y = ready(np.exp, x[16 : n + 16])
    finally:
        POOL.set_threads(before)
    np.testing.assert_allclose(y, np.exp(x[16 : n + 16]), 1e-6)
    assert (room[:16] == 7).all()
    assert (room[n + 16 :] == 7).all()


@pytest.mark.parametrize("shape", [(1,), (), (5,), (1, 5), (4, 5), (3, 1, 1), (3, 4, 1), (3, 4, 5)])
def test_broadcast(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 4, 5)).astype("f"), np.asarray(rng.normal(size=shape), "f")
    np.testing.assert_array_equal(ready(np.subtract, x, y), x - y)


def test_what_does_not_fit_is_left_to_numpy() -> None:
    x = np.ones((4, 6), "f")
    for pair in ((x[:, ::2], x[:, ::2]), (x, np.ones((4, 6), "d")[:, ::-1]), (x, x.T.copy().T),
                 (x.astype("h"), x.astype("h")), (np.ones((4, 2, 3), "f"), np.ones((2, 1), "f")),
                 (x[0], x)):
        for _ in range(3):
            assert pointwise_native.try_kernel(np.add, *pair) is None
    assert not pointwise_native._ready


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(3, 17), (5, 33), (2, 3, 40), (7, 1031), (1, 20)])
def test_rows_with_gaps_are_read_where_they_lie(shape: tuple[int, ...], threads: int) -> None:
    before = POOL.threads()
    POOL.set_threads(threads)
    x = np.random.default_rng(0).normal(size=shape).astype("f")
    whole, row = x[..., 1:].copy(), x[(0,) * (x.ndim - 1)][1:].copy()
    try:
        for pair in ((x[..., 1:], x[..., :-1]), (x[..., 1:], whole), (whole, x[..., 1:]),
                     (x[..., 1:], row), (x[..., 1:], np.full((), 2.5, "f"))):
            y = ready(np.subtract, *pair)
            np.testing.assert_array_equal(y, pair[0] - pair[1])
            assert y.flags.c_contiguous
    finally:
        POOL.set_threads(before)
    gaps = [k for k in pointwise_native._ready if any(d[1] == "spread" for d in k[1])]
    assert len(gaps) == 2 or shape[0] == 1  # with an array, and with a number


@pytest.mark.parametrize("kind", ["f", "d", "int64", "float16"])
@pytest.mark.parametrize("shape", [(3, 34), (5, 33), (2, 3, 80), (7, 1031)])
def test_every_second_element_is_read_where_it_lies(shape: tuple[int, ...], kind: str) -> None:
    x = (np.random.default_rng(0).normal(size=shape) * 9).astype(kind)
    x[0].flat[:3] = 0, 1, 100
    for view in (x[..., ::2], x[..., 1::2]):
        for other in (view, view.copy(), view[(0,) * (x.ndim - 1)].copy(), np.full((), 2, kind)):
            operands = torch.from_numpy(view), torch.from_numpy(other)
            for _ in range(4):
                actual = torch.maximum(*operands).numpy()
            np.testing.assert_array_equal(actual, np.maximum(view, other))
            assert actual.flags.c_contiguous
    assert any(d[1] == "second" for k in pointwise_native._ready for d in k[1])


def test_integers() -> None:
    x = np.random.default_rng(0).integers(-9, 9, 1031)
    for kind in ("int64", "int32", "uint8"):
        low, high = (np.asarray(v, kind) for v in (2, 5))
        actual = ready(extrema._clip, x.astype(kind), low, high)
        np.testing.assert_array_equal(actual, x.astype(kind).clip(2, 5))
        assert actual.dtype == kind
    np.testing.assert_array_equal(ready(rounding._sign, x), np.sign(x))


LOGIC = {
    "and": (torch.logical_and, np.logical_and), "or": (torch.logical_or, np.logical_or),
    "xor": (torch.logical_xor, np.logical_xor), "bits and": (torch.bitwise_and, np.bitwise_and),
    "bits or": (torch.bitwise_or, np.bitwise_or), "not": (lambda a, b: ~a, lambda a, b: ~a),
    "logical not": (lambda a, b: a.logical_not(), lambda a, b: ~a),
    "add": (torch.add, np.add), "multiply": (torch.mul, np.multiply),
    "maximum": (torch.maximum, np.maximum), "less": (torch.lt, np.less),
    "equal": (torch.eq, np.equal), "where": (lambda a, b: torch.where(a, b, ~b),
                                             lambda a, b: np.where(a, b, ~b)),
}


@pytest.mark.parametrize("size", [4, 17, 130])
@pytest.mark.parametrize("name", LOGIC)
def test_truth_values(name: str, size: int) -> None:
    a, b = np.random.default_rng(size).random((2, size)) > 0.5
    function, reference = LOGIC[name]
    for _ in range(4):  # NumPy's, then the kernel's
        actual = function(torch.from_numpy(a), torch.from_numpy(b)).numpy()
        assert actual.dtype == bool
        np.testing.assert_array_equal(actual, reference(a, b))
    served = any(v.__class__ is tuple for v in pointwise_native._ready.values())
    assert served == (name not in ("add", "multiply", "maximum", "less", "equal", "xor"))  # ufuncs


@pytest.mark.parametrize("kind", ["int32", "int64", "uint8"])
def test_shifts(kind: str) -> None:
    x = np.random.default_rng(0).integers(-99, 99, 131).astype(kind)
    by = np.resize(np.arange(70), 131).astype(kind)
    for function in (np.left_shift, np.right_shift):
        actual = ready(lambda a, b, function=function: function(a, b), x, by)
        np.testing.assert_array_equal(actual, function(x, by))
    np.testing.assert_array_equal(ready(lambda a: np.logical_not(a), x), x == 0)


@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "int64", "float16", "uint8"])
def test_a_number_written_where_a_mask_holds(kind: str) -> None:
    x = (np.random.default_rng(0).normal(size=(31, 17)) * 9).astype(kind)
    masks = [x > 2, np.asfortranarray(x > 2), np.zeros_like(x, bool), x[:, 0] > 2]
    for _, mask in itertools.product(range(4), masks):
        y, wanted = torch.tensor(x), x.copy()
        version = y._version
        y[torch.from_numpy(mask)] = 7
        wanted[mask] = 7
        np.testing.assert_array_equal(y.numpy(), wanted)
        assert y._version == version + 1
    known = any(v.__class__ is tuple for v in pointwise_native._ready.values())
    assert known == (kind not in ("float16", "uint8"))


def test_angles() -> None:
    x = np.resize(np.float32(SPECIAL), 40_000)
    for _ in range(4):
        actual = torch.angle(torch.from_numpy(x)).numpy()
    np.testing.assert_array_equal(actual, np.where(np.isnan(x), x, np.where(x < 0, np.pi, 0))
                                  .astype("f"))


def test_logaddexp2() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 4001)).astype("f") * 30
    x[:6] = np.inf, -np.inf, np.inf, -np.inf, np.nan, 3
    y[:6] = np.inf, -np.inf, -np.inf, 2, 1, 3
    for _ in range(4):
        actual = torch.logaddexp2(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(actual, np.logaddexp2(x.astype("d"), y.astype("d")), 3e-7, 1e-7)
    assert any(v.__class__ is tuple for v in pointwise_native._ready.values())


def test_integers_stay_integers() -> None:
    x = np.arange(100)
    for body in (lambda v: v * 0.5, lambda v: np.exp(v), lambda v: v / 2):
        for _ in range(4):
            assert pointwise_native.try_kernel(body, x) is None


def test_arrays_of_middle_size_want_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointwise_native, "MAX_NUMPY_POINTWISE_ELEMENTS", 1 << 20)
    monkeypatch.setattr(pointwise_native, "CALLS_BEFORE_COMPILING", 3)
    monkeypatch.setattr(pointwise_native, "CALLS_BEFORE_USE", 9)
    x = np.linspace(-3, 3, 5000, dtype="f")

    def body(v):  # of this test alone: there is no kernel yet
        return 1 / (1 + np.exp(-v))

    results = [pointwise_native.try_kernel(body, x) for _ in range(12)]
    assert [y is None for y in results] == [True] * 9 + [False] * 3
    np.testing.assert_allclose(results[-1], 1 / (1 + np.exp(-x)), 1e-5)
    for _ in range(12):
        assert pointwise_native.try_kernel(body, np.stack([x, x, x], 1)[:, 0]) is None


def test_brief_bodies_of_middle_size_stay_with_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointwise_native, "MAX_NUMPY_POINTWISE_ELEMENTS", 1 << 13)
    monkeypatch.setattr(pointwise_native, "CALLS_BEFORE_COMPILING", 1)
    monkeypatch.setattr(pointwise_native, "CALLS_BEFORE_USE", 2)
    monkeypatch.setattr(pointwise_native, "_brief", set())
    x = np.linspace(-3, 3, 5000, dtype="f")

    def square_more(v):
        return v * v + v

    for _ in range(6):
        assert pointwise_native.try_kernel(square_more, x) is None
    assert square_more in pointwise_native._brief
    twice = np.concatenate([x, x])
    np.testing.assert_allclose(ready(square_more, twice), twice * twice + twice, 1e-5, 1e-6)


def test_channels_last_keeps_its_layout() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    y = ready(np.exp, x._array)
    assert y.strides == x._array.strides
    np.testing.assert_allclose(y, np.exp(x._array), 1e-6)


def served(function, *arguments):
    """The function's result once kernels serve it."""
    function(*arguments)
    function(*arguments)
    until = time.monotonic() + 120
    while not any(v.__class__ is tuple for v in pointwise_native._ready.values()):
        function(*arguments)
        assert time.monotonic() < until, "no kernel came"
        time.sleep(0.002)
    return function(*arguments)


CALLS = {
    "add": lambda x: x + x, "number": lambda x: x * 2.5, "reflected": lambda x: 1.0 - x,
    "gelu": F.gelu, "gelu tanh": lambda x: F.gelu(x, approximate="tanh"), "elu": F.elu,
    "leaky": lambda x: F.leaky_relu(x, 0.1), "softplus": F.softplus, "relu": F.relu,
    "square": lambda x: x**2, "power": lambda x: x.abs() ** 1.5, "hardswish": F.hardswish,
    "compare": lambda x: x > 0.5,
}


@pytest.mark.parametrize("name", CALLS)
def test_operators(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flambeau.ops.core.cache_blocking.BLOCK_ELEMENTS", 2)
    x = torch.from_numpy(inputs(1, np.float32)[0])
    wanted = torch.from_numpy(inputs(1, np.float32)[0].astype("d"))
    actual, wanted = served(CALLS[name], x), CALLS[name](wanted)
    np.testing.assert_allclose(actual.numpy(), wanted.numpy(), 1e-4, 1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    x = torch.randn(1001).to(dtype)
    wanted = (x.float() * x.float()).to(dtype)
    actual = served(torch.mul, x, x)
    assert actual.dtype is dtype
    assert torch.equal(actual, wanted)


def test_gradients_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flambeau.ops.core.cache_blocking.BLOCK_ELEMENTS", 2)
    x = torch.linspace(-2, 2, 101).requires_grad_()
    served(lambda: F.gelu(x).sum().backward())
    x.grad = None
    F.gelu(x).sum().backward()
    y = x.detach().double().requires_grad_()
    F.gelu(y).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), 1e-5, 1e-6)


def test_inverse_of_erf() -> None:
    from scipy.special import erfinv

    ends = 1 - 2.0 ** -np.linspace(1, 24, 3000)
    special = [0.0, -0.0, 1.0, -1.0, 2.0, -np.inf, np.nan, 1e-30, -1e-41]
    x = np.concatenate([np.linspace(-1, 1, 5001), ends, -ends, special]).astype(np.float32)
    for _ in range(3):  # SciPy's, then the kernel's
        y = torch.from_numpy(x).erfinv().numpy()
    assert any(v.__class__ is tuple for v in pointwise_native._ready.values())
    exact = erfinv(x.astype(float))
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(y[~finite], exact[~finite])
    spacing = np.spacing(np.maximum(np.abs(exact[finite]), 1.2e-38).astype(np.float32))
    assert (np.abs(y[finite] - exact[finite]) / spacing).max() <= 1.5
