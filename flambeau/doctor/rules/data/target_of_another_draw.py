"""Noise to predict that is not the noise that was added."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...events import Backward, LossCall, ModuleCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ...samples import hash_rows
from ..rule import Rule

_MAX_ROWS = 1 << 14  # rows that are remembered
_STEPS = 6
_NUMBERS = 4096  # of each tensor, which are compared
_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
_MIN_NUMBERS = 64
_MAX_DRAWS = 8  # of a step that are remembered
# Correlations of the input: with the target at most, with another draw between these. Those of
# unrelated numbers are about 1 / sqrt(n); the bounds are some multiples of that for few numbers.
_MAX_WITH_TARGET, _MAX_CHANCE_DEVIATIONS = 0.1, 3
_MIN_WITH_DRAW, _MIN_DRAW_DEVIATIONS = 0.15, 4
_MAX_WITH_DRAW = 0.999  # above, the input is the draw


class TargetOfAnotherDraw(Rule):
    """Compares draws of random numbers with the inputs and the target of a step."""

    id = "target-of-another-draw"
    level = Level.LIKELY
    needs = ("on_draw", "on_loss", "on_call")
    title = "the target is noise, but not the noise in the input: nothing can be learned"
    why = (
        "A denoiser predicts the noise that was added to its input. Reported when the target is "
        "drawn in every step and the input contains a different draw of the same shape plus "
        f"something else, {_STEPS} times; also when all rows of the input appeared in earlier "
        "steps, so that they cannot contain this step's noise. Not reported for purely random "
        "inputs, as in trials with random data."
    )
    fix = "draw the noise once: noise = torch.randn_like(x); model(x + s * noise), noise"
    broken = """
net = nn.Linear(8, 8)
optimizer = optim.Adam(net.parameters())
for _ in range(9):
    noisy = 0.8 * x + 0.6 * torch.randn_like(x)
    loss = F.mse_loss(net(noisy), torch.randn_like(x))  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "noisy = 0.8 * x + 0.6 * torch.randn_like(x)":
            "noise = torch.randn_like(x)\nnoisy = 0.8 * x + 0.6 * noise",
        "loss = F.mse_loss(net(noisy), torch.randn_like(x))  # <-":
            "loss = F.mse_loss(net(noisy), noise)",
    })
    healthy = ("""
# A trial of speed, with random data.
net = nn.Linear(8, 8)
optimizer = optim.Adam(net.parameters())
for _ in range(9):
    loss = F.mse_loss(net(torch.randn(64, 8)), torch.randn(64, 8))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Noise in the input, for robustness; the target are data.
net = nn.Linear(8, 8)
optimizer = optim.Adam(net.parameters())
for _ in range(9):
    loss = F.mse_loss(net(x + 0.1 * torch.randn_like(x)), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.draws: list[tuple[Any, Spot | None]] = []  # drawn since the latest pass, and where
        self.inputs: list[np.ndarray] = []
        self.called: Spot | None = None
        self.times: dict[Spot | None, int] = {}
        self.rows: set[int] = set()  # of inputs of earlier steps
        self.clean: dict[Spot | None, int] = {}

    def on_draw(self, tensor: Any, spot: Spot | None) -> None:
        if tensor._array.dtype.kind == "f" and tensor._array.ndim and len(self.draws) < _MAX_DRAWS:
            self.draws.append((tensor, spot))

    def on_call(self, call: ModuleCall) -> None:
        if call.recorded and self.draws:
            self.inputs = [tensor._array for tensor in call.tensors]
            self.called = call.spot

    def on_backward(self, backward: Backward) -> None:
        self.draws.clear()
        self.inputs = []

    on_gradient = on_backward

    def on_loss(self, call: LossCall) -> None:
        target = call.target
        spots = [spot for draw, spot in self.draws if target is draw]
        if call.name not in _LOSSES or not spots:
            return
        shape = target._array.shape
        self._look_for_clean(target._array, spots[0], call.spot)
        other_draws = [draw._array for draw, _ in self.draws
                       if draw is not target and draw._array.shape == shape]
        deviation = min(target._array.size, _NUMBERS) ** -0.5
        most = max(_MAX_WITH_TARGET, _MAX_CHANCE_DEVIATIONS * deviation)
        least = max(_MIN_WITH_DRAW, _MIN_DRAW_DEVIATIONS * deviation)
        is_noised = any(
            _correlate(source, target._array) < most
            and any(least < _correlate(source, draw) < _MAX_WITH_DRAW for draw in other_draws)
            for source in (_select_part(array, shape) for array in self.inputs)
            if source is not None and source.size >= _MIN_NUMBERS
        )
        count = self.times.get(call.spot, 0) + 1 if is_noised else 0
        self.times[call.spot] = count
        if count >= _STEPS:
            self.report("the target is a different draw than the noise in the model's input",
                        spots[0], call.spot, times=count)

    def _look_for_clean(self, target: np.ndarray, draw: Spot | None, loss: Spot | None) -> None:
        """Report inputs that are rows of earlier steps, and so contain no new noise."""
        candidates = [candidate
                      for candidate in (_select_part(array, target.shape) for array in self.inputs)
                      if candidate is not None and candidate.ndim > 1]
        hashes = [hash_rows(candidate, min_columns=2) for candidate in candidates]
        is_clean = bool(hashes) and all(
            rows and len(rows) == len(candidate) and self.rows.issuperset(rows)
            for rows, candidate in zip(hashes, candidates, strict=True))
        if len(self.rows) < _MAX_ROWS:
            self.rows.update(row for rows in hashes for row in rows)
        count = self.clean[loss] = self.clean.get(loss, 0) + 1 if is_clean else 0
        if count >= _STEPS:
            self.report("the target is noise that was drawn in this step, and the model's input "
                        "holds none: its rows were seen in earlier steps", self.called, loss, draw,
                        fix="pass the sample with the added noise to the model", times=count)


def _select_part(source: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return the part of an input that may hold the noise: all of it, or its leading columns or
    channels if a time or a condition follows them."""
    if source.shape == shape:
        return source
    is_wider = source.ndim == len(shape) > 1 and source.shape[1] > shape[1]
    leading = source[:, :shape[1]] if is_wider else source
    return leading if leading.shape == shape else None


def _correlate(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.reshape(-1)[:_NUMBERS], b.reshape(-1)[:_NUMBERS]
    if not a.std() or not b.std():
        return 0.0
    return float(abs(np.corrcoef(a, b)[0, 1]))
