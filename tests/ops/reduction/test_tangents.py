"""Values and tangents of reductions in one way, beside the rules that transpose the vjp."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
from flambeau.ops.core.operator import OPERATORS

FUNCTIONS = {
    "_vector_norm": lambda x, **at: torch.linalg.vector_norm(x, **at),
    "_var": lambda x, **at: torch.var(x, correction=1, **at),
    "_std": lambda x, **at: torch.std(x, correction=0, **at),
    "prod": torch.prod,
    "amax": torch.amax,
    "amin": torch.amin,
}
PLACES: list[dict[str, Any]] = [
    {}, {"dim": 1}, {"dim": -1, "keepdim": True}, {"dim": 0}, {"dim": 0, "keepdim": True}]


def push_in_both_ways(name: str, f: Any, x: Any, t: Any, monkeypatch: Any) -> tuple[Any, Any, list]:
    """The jvp with the operator's rule for both and without; whether that rule served."""
    served, rule = [], OPERATORS[name].value_and_jvp
    assert rule is not None
    names = rule.__code__.co_varnames[: rule.__code__.co_argcount]
    source = f"lambda {', '.join(names)}: watch({', '.join(names)})"

    def watch(*args: Any) -> Any:
        served.append(rule(*args))
        return served[-1]

    with monkeypatch.context() as patch:
        patch.setattr(OPERATORS[name], "value_and_jvp", eval(source, {"watch": watch}))
        first = torch.func.jvp(f, (x,), (t,))
        patch.setattr(OPERATORS[name], "value_and_jvp", None)
        return first, torch.func.jvp(f, (x,), (t,)), [pair is not None for pair in served]


@pytest.mark.parametrize("at", PLACES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4), (130, 70)])
def test_agree(name: str, at: dict, dtype: Any, shape: tuple, monkeypatch: Any) -> None:
    if name == "prod" and "keepdim" in at and "dim" not in at:
        pytest.skip("no such overload")
    torch.manual_seed(0)
    x = torch.rand(shape, dtype=dtype) * 0.3 + 0.85 if name == "prod" else \
        torch.randn(shape, dtype=dtype)
    if name in ("amax", "amin"):
        x = torch.randperm(x.numel()).reshape(shape).to(dtype)
    if name == "prod" and not at and shape == (130, 70):
        x = x / x.log().mean().exp()
    t = torch.randn(shape, dtype=dtype)
    f = lambda x: FUNCTIONS[name](x, **at)  # noqa: E731
    (y, dy), (wanted, expected), served = push_in_both_ways(name, f, x, t, monkeypatch)
    assert served == [True]
    assert torch.equal(y, wanted)
    assert dy.shape == expected.shape and dy.dtype is dtype
    bound = 2e-4 if dtype is torch.float32 else 1e-9
    torch.testing.assert_close(dy, expected, rtol=bound, atol=bound)


@pytest.mark.parametrize(("name", "values"), [
    ("prod", [2.0, 0.0, 3.0]), ("prod", [0.0, 0.0, 3.0]), ("prod", [1e-30, 1e-30, 1.0]),
    ("prod", [float("inf"), 1.0, 2.0]), ("amax", [1.0, 3.0, 3.0]), ("amin", [1.0, 1.0, 3.0]),
    ("amax", [1.0, float("nan"), 3.0]),
])
def test_what_has_no_such_slope_takes_the_rule(name: str, values: list, monkeypatch: Any) -> None:
    x, t = torch.tensor([values]), torch.tensor([[1.0, 2.0, 4.0]])
    first, second, served = push_in_both_ways(
        name, lambda x: FUNCTIONS[name](x, dim=1), x, t, monkeypatch)
    assert served == [False]
    torch.testing.assert_close(first, second, equal_nan=True)


@pytest.mark.parametrize("name", ["_vector_norm", "_std"])
def test_roots_of_zero_have_no_slope(name: str, monkeypatch: Any) -> None:
    x, t = torch.zeros(2, 3), torch.ones(2, 3)
    first, second, served = push_in_both_ways(
        name, lambda x: FUNCTIONS[name](x, dim=1), x, t, monkeypatch)
    assert served == [True]
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("zero", [False, True])
def test_cumulative_products(dim: int, zero: bool, monkeypatch: Any) -> None:
    torch.manual_seed(0)
    x, t = torch.rand(6, 7).double() + 0.5, torch.randn(6, 7).double()
    if zero:
        x[2, 3] = 0
    first, second, served = push_in_both_ways(
        "cumprod", lambda x: x.cumprod(dim), x, t, monkeypatch)
    assert served == [not zero]
    torch.testing.assert_close(first, second)


ROWS = {
    "logsumexp": lambda x, **at: torch.logsumexp(x, **({"dim": (0, 1)} | at)),
    "amax": torch.amax,
    "amin": torch.amin,
}


@pytest.mark.parametrize("at", [{}, {"dim": (0, -1), "keepdim": True}, {"dim": 1},
                                {"dim": -1, "keepdim": True}], ids=str)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernels_of_rows_agree(name: str, at: dict, dtype: Any, monkeypatch: Any) -> None:
    """Ties share, NaN and infinities are as in the rule; under vmap and in nested levels too."""
    torch.manual_seed(0)
    x, t = (torch.randn(300, 400, dtype=dtype) for _ in range(2))
    x = x if name == "logsumexp" else (x * 4).round()
    if at.get("dim") in (1, -1):
        x[3, 5], x[4, 6], x[5], x[6] = float("nan"), float("inf"), -float("inf"), 1e4
    f = lambda x: ROWS[name](x, **at)  # noqa: E731
    for _ in range(4):
        push_in_both_ways(name, f, x, t, monkeypatch)
    kernel, rule, served = push_in_both_ways(name, f, x, t, monkeypatch)
    assert served == [True]
    torch.testing.assert_close(kernel, rule, equal_nan=True)
    x = torch.randn(300, 400, dtype=dtype)
    push = lambda x, t: torch.func.jvp(f, (x,), (t,))[1]  # noqa: E731
    batch = torch.stack([t, t * 2])
    torch.testing.assert_close(torch.vmap(lambda t: push(x, t))(batch),
                               torch.stack([push(x, t) for t in batch]))
    nested = torch.func.jvp(lambda x: push(x, t), (x,), (t,))[1]
    step = 1e-4
    if dtype is torch.float64:
        torch.testing.assert_close(nested, (push(x + step * t, t) - push(x - step * t, t))
                                   / (2 * step), rtol=1e-4, atol=1e-6)
