"""options={"random": "counter"}: numbers that kernels make of a key, the draw and the element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.compiler.ir.graph import SourceKind
from flambeau.compiler.trace.counter_rng import CounterDraw
from flambeau.native.loop_ir.philox import philox_word

COUNTER = {"random": "counter", "mode": "now"}


def key_next() -> int:
    """The key that the next run draws."""
    state = torch.get_rng_state()
    high, low = torch.default_generator.words(2).tolist()
    torch.set_rng_state(state)
    return high << 32 | low


def compiled(step: Any, *args: Any, module: bool = False) -> Any:
    """A step, called until it has a program."""
    torch.manual_seed(1)
    fast = torch.compile(step, options=COUNTER)
    for _ in range(4):
        fast(*args)
    if not module:
        assert "no program" not in fast.explain()
    return fast


def numbers(name: str, parameters: tuple, shape: tuple, dtype: str, stream: int, key: int
            ) -> np.ndarray:
    """What a draw gives, by NumPy."""
    array = np.empty(shape, dtype)
    CounterDraw(name, stream, parameters).fill(array, key)
    return array


DRAWS: dict[str, tuple[Any, str, tuple]] = {
    "rand": (lambda: torch.rand(7, 33), "fill_uniform", (0.0, 1.0)),
    "uniform": (lambda: torch.empty(7, 33).uniform_(-2, 3), "fill_uniform", (-2.0, 3.0)),
    "double": (lambda: torch.rand(7, 33, dtype=torch.float64), "fill_uniform", (0.0, 1.0)),
    "bernoulli": (lambda: torch.empty(7, 33).bernoulli_(0.3), "fill_bernoulli", (0.3,)),
    "certain": (lambda: torch.empty(7, 33).bernoulli_(1.0), "fill_bernoulli", (1.0,)),
    "whole": (lambda: torch.empty(7, 33, dtype=torch.int64).bernoulli_(0.3), "fill_bernoulli",
              (0.3,)),
    "half": (lambda: torch.empty(7, 33, dtype=torch.bfloat16).uniform_(), "fill_uniform",
             (0.0, 1.0)),
    "dropout": (lambda: F.dropout(torch.ones(7, 33), 0.3), "fill_dropout", (0.3,)),
    "randn": (lambda: torch.randn(7, 33), "fill_normal", (0.0, 1.0)),
    "normal": (lambda: torch.empty(7, 33).normal_(3, 2), "fill_normal", (3.0, 2.0)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_kernels_make_the_numbers_of_the_formula(name: str) -> None:
    draw, function, parameters = DRAWS[name]
    fast = compiled(draw)
    key = key_next()
    actual = fast()
    kind = np.dtype(actual._array.dtype)
    expected = numbers(function, parameters, (7, 33), kind, 0, key).astype(np.float64)
    np.testing.assert_allclose(actual.double().numpy(), expected, rtol=1e-5, atol=2e-6)
    assert name == "certain" or not torch.equal(fast(), actual)


def test_a_bit_of_the_formula() -> None:
    bits = philox_word(np.arange(12), np.uint64(3), np.uint64(9))
    expected = (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    actual = numbers("fill_uniform", (0.0, 1.0), (3, 4), "float32", 3, 9)
    np.testing.assert_array_equal(actual.ravel(), expected)


def test_numbers_look_as_they_should() -> None:
    n = 100_000
    uniform = numbers("fill_uniform", (0.0, 1.0), (n,), "float32", 0, 5)
    counts = np.histogram(uniform, 64, (0, 1))[0]
    assert uniform.min() >= 0 and uniform.max() < 1
    assert ((counts - n / 64) ** 2 / (n / 64)).sum() < 110  # of 63 degrees of freedom
    normal = numbers("fill_normal", (0.0, 1.0), (n,), "float32", 1, 5).astype(np.float64)
    assert abs(normal.mean()) < 0.012 and abs(normal.var() - 1) < 0.015
    assert abs((normal**4).mean() - 3) < 0.1
    assert abs(np.corrcoef(uniform, normal)[0, 1]) < 0.012


def test_a_run_takes_one_key_and_seeds_repeat_it() -> None:
    fast = compiled(lambda: (torch.rand(50), torch.rand(50), F.dropout(torch.ones(50), 0.5)))
    torch.manual_seed(3)
    first = fast()
    after = torch.get_rng_state()
    assert not torch.equal(first[0], first[1])
    torch.manual_seed(3)
    assert all(map(torch.equal, fast(), first))
    torch.manual_seed(3)
    torch.default_generator.words(2)
    assert torch.equal(torch.get_rng_state(), after)


def test_forward_and_backward_drop_the_same() -> None:
    x = torch.randn(64, 48, requires_grad=True)

    def step(x: Any) -> Any:
        x.grad = None
        y = F.dropout(x.tanh() * 2, 0.4)
        (y * y).sum().backward()
        return y

    fast = compiled(step, x)
    y = fast(x).detach()
    g, x = x.grad, x.detach()
    mask = y != 0
    slope = 2 * y * (1 - x.tanh() ** 2) * 2 / 0.6
    assert 0.5 < mask.float().mean() < 0.7
    torch.testing.assert_close(g, torch.where(mask, slope, torch.zeros(())), rtol=1e-4, atol=1e-4)


def test_masks_lie_nowhere() -> None:
    x, w = torch.randn(64, 48), torch.randn(48, 96, requires_grad=True)

    def step(x: Any) -> Any:
        w.grad = None
        loss = (F.dropout(x @ w, 0.4).tanh() @ w.T).square().sum()
        loss.backward()
        return loss

    fast = compiled(step, x)
    sources = fast._programs[0].step.graph.sources
    assert [source.shape for source in sources if source.kind is SourceKind.DRAWN] == [(1,)]
    loops = fast.explain(4).split("\nloops\n")[1]
    kernels = [kernel for kernel in loops.split("\n\n") if "(b0" in kernel]
    text = "\n".join(kernels)
    assert text.count("philox_word(") >= 2 and ": bool" not in text and ": uint8" not in text


def test_channels_last_activations_and_features() -> None:
    x = torch.randn(2, 6, 5, 5)

    def step(x: Any) -> Any:
        return F.dropout(F.conv2d(x, torch.ones(8, 6, 3, 3)), 0.5), F.dropout2d(x, 0.5)

    fast = compiled(step, x)
    y, two = fast(x)
    channels = (two != 0).reshape(2, 6, 25).float().mean(-1)
    assert set(channels.flatten().tolist()) <= {0.0, 1.0}
    assert 0.2 < (y != 0).float().mean() < 0.8


def test_a_module_compiled_by_itself() -> None:
    net = nn.Sequential(nn.Linear(16, 40), nn.Dropout(0.5))
    fast = torch.compile(net, options=COUNTER)
    x = torch.ones(8, 16, requires_grad=True)
    for _ in range(5):
        y = fast(x)
        x.grad = None
        y.sum().backward()
    expected = ((y != 0).float() * 2) @ net[0].weight
    torch.testing.assert_close(x.grad, expected.detach(), rtol=1e-4, atol=1e-4)


def test_what_has_no_counter_is_the_generators() -> None:
    fast = compiled(lambda: (torch.rand(9), torch.empty(9).exponential_()))
    torch.manual_seed(7)
    actual = fast()[1]
    torch.manual_seed(7)
    torch.default_generator.words(2)
    assert torch.equal(actual, torch.empty(9).exponential_())


def test_errors() -> None:
    with pytest.raises(ValueError, match="'generator' or 'counter', not 'counting'"):
        torch.compile(lambda: 0, options={"random": "counting"})

    @torch.compile(options=COUNTER)
    def step() -> Any:
        return torch.empty(4).bernoulli_(1.5)

    for _ in range(3):
        with pytest.raises(RuntimeError, match="p=1.5"):
            step()
