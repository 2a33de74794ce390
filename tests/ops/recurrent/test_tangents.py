"""Tangents of recurrent layers: kernels and NumPy's steps beside the transposed adjoint."""

from __future__ import annotations

import time
from typing import Any

import pytest

import flambeau as torch
from flambeau.native.runtime.background_jit import KernelPolicy
from flambeau.native.runtime.thread_pool import POOL
from flambeau.ops.core.operator import OPERATORS
from flambeau.ops.recurrent import native

LAYERS = [
    ("LSTM", {}), ("LSTM", {"bidirectional": True, "num_layers": 2}), ("LSTM", {"bias": False}),
    ("LSTM", {"proj_size": 3}), ("LSTM", {"proj_size": 3, "bidirectional": True, "num_layers": 2}),
    ("GRU", {}), ("GRU", {"bidirectional": True, "num_layers": 2}), ("GRU", {"bias": False}),
    ("RNN", {}), ("RNN", {"nonlinearity": "relu", "bidirectional": True}), ("RNN", {"bias": False}),
]
MOVED = ["x", "states", "weights", "all"]


def build(kind: str, options: dict, moved: str, packed: bool, dtype: Any = torch.float64) -> Any:
    """A layer as a function of what moves, and those tensors; `packed`: sequences of lengths."""
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(4, 17, dtype=dtype, **options)
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    widths = [options.get("proj_size") or 17] + [17] * (kind == "LSTM")
    states = [torch.randn(count, 5, width, dtype=dtype) for width in widths]
    x = torch.randn(6, 5, 4, dtype=dtype)
    weights = {name: p.detach() for name, p in layer.named_parameters()}
    chosen = {"x": [x], "states": states, "weights": list(weights.values()),
              "all": [x, *states, *weights.values()]}[moved]

    def run(*values: Any) -> tuple:
        rest = list(values)
        own_x = rest.pop(0) if moved in ("x", "all") else x
        own = [rest.pop(0) for _ in states] if moved in ("states", "all") else states
        own_weights = dict(zip(weights, rest, strict=True)) if rest else weights
        if packed:
            own_x = torch.nn.utils.rnn.pack_padded_sequence(own_x, torch.tensor([6, 5, 5, 2, 1]))
        y, last = torch.func.functional_call(
            layer, own_weights, (own_x, tuple(own) if len(own) > 1 else own[0]))
        return y.data if packed else y, *(last if isinstance(last, tuple) else (last,))

    return run, tuple(chosen)


def transpose(run: Any, primals: tuple, tangents: tuple) -> tuple:
    """The tangents by the vjp of the vjp."""
    _, push = torch.func.linearize(lambda *v: run(*v), *primals)
    return push(*tangents)


def push_until_kernels(run: Any, primals: tuple, tangents: tuple, count: int) -> Any:
    """The jvp once its kernels are there."""
    until = time.monotonic() + 120
    while True:
        torch.func.jvp(run, primals, tangents)
        if sum(form.walk == "tangent" for form in native._runners) >= count:
            return torch.func.jvp(run, primals, tangents)
        assert time.monotonic() < until, "no kernel came"
        time.sleep(0.002)


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(native, "MIN_TANGENT_RECURRENT_MULTIPLICATIONS", 0)
    monkeypatch.setattr(native, "MIN_THREADED_RECURRENT_MULTIPLICATIONS", 0)
    monkeypatch.setattr(native, "_runners", {})
    monkeypatch.setattr(native._calls, "counts", {})
    before = POOL.threads()
    POOL.set_threads(2)
    yield
    POOL.set_threads(before)


@pytest.mark.parametrize("moved", MOVED)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("kind", "options"), LAYERS)
def test_steps_in_numpy(kind: str, options: dict, packed: bool, moved: str) -> None:
    run, primals = build(kind, options, moved, packed)
    tangents = tuple(torch.randn_like(p) for p in primals)
    values, pushed = torch.func.jvp(run, primals, tangents)
    wanted, expected = run(*primals), transpose(run, primals, tangents)
    for a, b in zip((*values, *pushed), (*wanted, *expected), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("moved", MOVED)
@pytest.mark.parametrize(("kind", "options"), [c for c in LAYERS if "proj_size" not in c[1]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.usefixtures("_small")
def test_kernels(
    kind: str, options: dict, moved: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, primals = build(kind, options, moved, False, dtype)
    tangents = tuple(torch.randn_like(p) for p in primals)
    both = 2 if "bidirectional" in options else 1
    values, pushed = push_until_kernels(run, primals, tangents, both)
    with monkeypatch.context() as patch:
        patch.setattr(KernelPolicy, "allowed", False)
        wanted, expected = torch.func.jvp(run, primals, tangents)
    bound = 1e-4 if dtype is torch.float32 else 1e-10
    for a, b in zip((*values, *pushed), (*wanted, *expected), strict=True):
        torch.testing.assert_close(a, b, rtol=bound, atol=bound)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.usefixtures("_small")
def test_saturated_gates_have_finite_tangents(kind: str) -> None:
    """exp overflows for the largest sums."""
    layer = getattr(torch.nn, kind)(1, 17).requires_grad_(False)
    x = torch.tensor([-1e4, -200.0, 0.0, 200.0, 1e4]).repeat(4, 1)[..., None]
    run = lambda x: layer(x)[0]  # noqa: E731
    _, pushed = push_until_kernels(run, (x,), (torch.ones_like(x),), 1)
    assert pushed.isfinite().all()


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("recorded", [False, True])
def test_higher_derivatives(kind: str, recorded: bool) -> None:
    """Jacobians by batches of tangents, Hessians, gradcheck in forward mode and of the tangents."""
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(2, 3, dtype=torch.float64).requires_grad_(recorded)
    x = torch.randn(3, 2, 2, dtype=torch.float64)
    run = lambda x: layer(x)[0]  # noqa: E731
    torch.testing.assert_close(torch.func.jacfwd(run)(x), torch.func.jacrev(run)(x))
    total = lambda x: run(x).square().sum()  # noqa: E731
    hessian = torch.func.jacrev(torch.func.jacrev(total))(x)
    torch.testing.assert_close(torch.func.hessian(total)(x), hessian)
    torch.testing.assert_close(torch.func.jacrev(torch.func.jacfwd(total))(x), hessian)
    torch.testing.assert_close(torch.func.jacfwd(torch.func.jacfwd(total))(x), hessian)
    assert torch.autograd.gradcheck(run, (x.requires_grad_(),), check_forward_ad=True,
                                    check_batched_forward_grad=True)
    assert torch.autograd.gradgradcheck(run, (x,), check_fwd_over_rev=True)
    tangent = torch.randn_like(x)
    pushed = lambda x, t: torch.func.jvp(run, (x,), (t,))[1]  # noqa: E731
    assert torch.autograd.gradcheck(pushed, (x, tangent.requires_grad_()))
    assert torch.autograd.gradgradcheck(pushed, (x, tangent))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_gradients_of_tangents_reach_weights(kind: str) -> None:
    """As those of what the steps' operators record."""
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(2, 3, dtype=torch.float64)
    x, tangent = torch.randn(4, 2, 2, dtype=torch.float64), torch.randn(4, 2, 2).double()

    def compute() -> Any:
        _, pushed = torch.func.jvp(lambda x: layer(x)[0], (x,), (tangent,))
        return torch.autograd.grad(pushed.square().sum(), list(layer.parameters()))

    names, weights = zip(*layer.named_parameters(), strict=True)
    delta = 1e-6

    def push(*values: Any) -> Any:
        call = lambda x: torch.func.functional_call(  # noqa: E731
            layer, dict(zip(names, values, strict=True)), (x,))[0]
        return (call(x + delta * tangent) - call(x - delta * tangent)).div(2 * delta).square().sum()

    expected = torch.func.grad(push, tuple(range(len(names))))(*[w.detach() for w in weights])
    for a, b in zip(compute(), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: Any) -> None:
    layer = torch.nn.GRU(4, 8).requires_grad_(False)
    x, tangent = torch.randn(3, 2, 4), torch.randn(3, 2, 4)
    _, expected = torch.func.jvp(lambda x: layer(x)[0], (x,), (tangent,))
    layer.to(dtype)
    y, pushed = torch.func.jvp(lambda x: layer(x)[0], (x.to(dtype),), (tangent.to(dtype),))
    assert y.dtype is pushed.dtype is dtype
    torch.testing.assert_close(pushed.float(), expected, rtol=0.1, atol=0.05)


def test_rules_are_those_of_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain duals of layers do not run step by step in operators."""
    monkeypatch.setattr(OPERATORS["_recurrent_tangent"], "function", None)
    for kind in ("LSTM", "GRU", "RNN"):
        layer = getattr(torch.nn, kind)(4, 8).requires_grad_(False)
        x = torch.randn(3, 2, 4)
        torch.func.jvp(lambda x, layer=layer: layer(x)[0], (x,), (x,))
