"""explain(): its levels say what they promise, and measuring a program changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn


def make_training(mode: str = "now", **options: Any) -> tuple[Any, Callable, tuple, Callable]:
    """A compiled step with dropout and statistics, the plain one, a batch, and all they leave."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2),
                        nn.Linear(16, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def left() -> list[torch.Tensor]:
        states = optimizer.state_dict()["state"].values()
        tensors = [*net.state_dict().values(), *(p.grad for p in net.parameters()),
                 *(value for state in states for value in state.values())]
        copies = [tensor.clone() for tensor in tensors if tensor is not None]
        return [*copies, torch.get_rng_state()]

    batch = torch.randn(8, 6), torch.randint(3, (8,))
    return torch.compile(step, mode=mode, **options), step, batch, left


@pytest.fixture(scope="module")
def trained() -> tuple[Any, Callable, tuple, Callable]:
    training = make_training()
    for _ in range(5):
        training[0](*training[2])
    assert training[0]._programs
    return training


def test_levels_tell_more_and_more(trained) -> None:
    step = trained[0]
    texts = [step.explain(level) for level in range(1, 7)]
    assert all(len(a) < len(b) for a, b in zip(texts[:-1], texts[1:], strict=True))
    for text in texts:
        assert text.startswith("step: ")
        assert "of what the machine can do" in text
    assert "linear in Sequential.0 at " in texts[0]
    assert "test_explain.py:" in texts[0]
    assert "matmul(" in texts[1]
    assert "group 0 over" in texts[2]
    assert "contract" in texts[3]
    assert "define" in texts[4]
    assert "ret" in texts[5]
    with pytest.raises(ValueError, match="level from 1 to 6, got 7"):
        step.explain(7)


def test_a_notebook_shows_the_page(trained) -> None:
    explanation = trained[0].explain()
    assert repr(explanation) == str(explanation)
    html = explanation._repr_html_()
    assert html.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert html.count('"') == html.count('="') * 2  # the page's own quotes are escaped


def test_measuring_changes_nothing(trained) -> None:
    step, _, batch, left = trained
    before = left()
    calls = step._programs[0].calls
    step.explain()
    for a, b in zip(before, left(), strict=True):
        assert torch.equal(a, b)
    assert step._programs[0].calls == calls
    copies = [x.clone() for x in batch]
    step.explain()
    assert all(torch.equal(a, b) for a, b in zip(copies, batch, strict=True))


def test_training_goes_on_as_if_it_had_not_been_asked() -> None:
    losses = []
    for asked in (False, True):
        step, _, batch, _ = make_training()
        results = []
        for i in range(8):
            results.append(step(*batch).item())
            if asked and i > 4:
                step.explain()
        losses.append(results)
    assert losses[0] == losses[1]


def test_arguments_that_are_written_stay() -> None:
    @torch.compile(mode="now")
    def double(x: torch.Tensor) -> torch.Tensor:
        x *= 2
        return x.sum()

    x = torch.ones(40)
    for _ in range(4):
        double(x)
    before = x.clone()
    double.explain()
    assert torch.equal(x, before)


def test_backward_is_a_program_of_its_own() -> None:
    net = torch.compile(nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3)), mode="now")
    for _ in range(4):
        net(torch.ones(8, 6)).sum().backward()
    text = net.explain()
    assert text.startswith("Sequential: ")
    assert "\nSequential, backward: " in text


def test_without_a_program_it_says_why() -> None:
    @torch.compile(mode="now")
    def step(x: torch.Tensor) -> int:
        return int(x.sum().item())

    assert "step has no program: it is made once" in step.explain()
    step(torch.ones(3))
    for _ in range(3):
        step(torch.ones(3))
    assert "step is followed: its Python runs on every call, because" in step.explain()
    with pytest.raises(RuntimeError, match="is followed"):
        step.explain(html="step.html")


def test_a_module_keeps_its_own_explain() -> None:
    class Net(nn.Module):
        def explain(self) -> str:
            return "mine"

    assert torch.compile(Net()).explain() == "mine"


def test_debug_prints_each_program_once(monkeypatch, capsys) -> None:
    monkeypatch.setenv("FLAMBEAU_DEBUG", "1")
    double = torch.compile(lambda x: x * 2, mode="now")
    for _ in range(6):
        double(torch.ones(50))
    assert capsys.readouterr().err.count("<lambda>: 1 kernel, ") == 1
