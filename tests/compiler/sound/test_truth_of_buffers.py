"""`if not self.initialized`: the truth of a tensor that existed before the call, and that the call
has not written to, is guarded like any other outside state.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn


class Shifted(nn.Module):
    """Subtracts the mean of its first batch, as layers with data-dependent initialization do."""

    initialized: torch.Tensor
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("initialized", torch.tensor([False]))
        self.register_buffer("mean", torch.zeros(4))
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Any) -> Any:
        if not self.initialized:
            with torch.no_grad():
                self.mean.copy_(x.mean(0))
                self.initialized.fill_(True)
        return (x - self.mean) * self.weight


def _replace(layer: Shifted) -> None:
    layer.initialized = torch.tensor([False])


def _write_through_a_view(layer: Shifted) -> None:
    layer.initialized.view(1)[0] = False


def _write_through_numpy(layer: Shifted) -> None:
    layer.initialized.numpy()[...] = False


CHANGES: dict[str, Callable[[Shifted], Any]] = {
    "nothing": lambda layer: None,
    "filled": lambda layer: layer.initialized.fill_(False),
    "replaced": _replace,
    "through a view": _write_through_a_view,
    "through numpy": _write_through_numpy,
    "loaded": lambda layer: layer.load_state_dict(Shifted().state_dict()),
    "another class": lambda layer: setattr(layer, "initialized", torch.tensor([0.0])),
    "a number": lambda layer: setattr(layer, "initialized", False),
}


def _run(change: Callable[[Shifted], Any], way: str) -> list[Any]:
    torch.manual_seed(0)
    layer, ticks = Shifted(), itertools.cycle("ab")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        if way == "followed":
            next(ticks)
        loss = layer(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    call = step if way == "eager" else torch.compile(step, options={"mode": "now"})
    seen = []
    for i in range(16):
        if i == 10:
            if way == "proved":
                assert "proved harmless" in call.explain(), call.explain()
            try:
                change(layer)
            except TypeError as error:
                seen.append(str(error))
        seen += [call(torch.randn(8, 4)).item(), layer.mean.tolist(), bool(layer.initialized)]
    return seen


@pytest.mark.parametrize("way", ["proved", "followed"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_flag_that_changes_between_calls_is_seen(change: str, way: str) -> None:
    actual, expected = (_run(CHANGES[change], w) for w in (way, "eager"))
    for a, b in zip(actual, expected, strict=True):
        assert a == (b if isinstance(b, str) else pytest.approx(b, rel=1e-5, abs=1e-6))


@pytest.mark.parametrize("alias", [False, True])
def test_a_flag_that_the_call_has_written_is_not_guarded(alias: bool) -> None:
    flag = torch.tensor(0.0)
    other = flag.view(1) if alias else flag

    def step(x: Any) -> Any:
        other.fill_(0).add_((x.sum() > 0).float())
        return x * 2 if flag else x - 1

    call = torch.compile(step, options={"mode": "now"})
    for i in range(16):
        x = torch.full((3,), 1.0 if i % 3 else -1.0)
        assert call(x).tolist() == step(x).tolist()
    assert "proved harmless" not in call.explain()


def test_a_flag_that_is_an_argument_is_not_guarded_by_its_first_value() -> None:
    def step(x: Any, flag: Any) -> Any:
        return x * 2 if flag else x - 1

    call = torch.compile(step, options={"mode": "now"})
    for i in range(16):
        flag = torch.tensor(i % 3 == 0)
        assert call(torch.ones(3), flag).tolist() == [2.0 if i % 3 == 0 else 0.0] * 3


def test_averaged_models_are_proved_and_start_again_when_reset() -> None:
    def run(compiled: bool) -> list[Any]:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        swa = torch.optim.swa_utils
        average = swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.update_parameters(model)
            return loss

        call = torch.compile(step, options={"mode": "now"}) if compiled else step
        seen = []
        for i in range(16):
            if i == 10:
                assert not compiled or "proved harmless" in call.explain()
                average.n_averaged.zero_()
            call(torch.randn(4, 3))
            seen += [average.module.weight.tolist(), average.n_averaged.item()]
        return seen

    for a, b in zip(run(True), run(False), strict=True):
        torch.testing.assert_close(torch.tensor(a), torch.tensor(b))
