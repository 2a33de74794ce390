"""Random numbers that every batch is given again."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...events import ModuleCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_TIMES = 5
_MAX_DRAWS = 256  # that are remembered
_MAX_NUMBERS = 1 << 20  # of a draw
_MIN_DIFFERING = 0.3  # share of the integers of two unrelated batches
_MIN_CORRELATION = 0.99999  # of numbers that are the same but for scale and shift


@dataclass
class _Draw:
    """Random numbers, one for each sample of a batch."""

    tensor: Any  # weakly
    values: np.ndarray
    spot: Spot | None
    updates: int  # how many came before
    uses: int = 0
    used_at: int = -1


class DrawnOnce(Rule):
    """Follows random numbers that are as many as a batch has samples from update to update."""

    id = "noise-drawn-once"
    level = Level.LIKELY
    needs = ("on_draw", "on_call")
    title = "noise is drawn once, before the loop: every batch gets the same noise"
    why = (
        "The noise of a variational autoencoder, the time steps of a diffusion model and the "
        "endpoints of an interpolation must be drawn for each batch; a network can memorize fixed "
        f"ones. Reported when the same random numbers, one per sample, enter {_TIMES} steps as a "
        "factor of what the network computes or as an input column while the samples differ. Not "
        "reported if the samples are the same too."
    )
    fix = "draw inside the loop: noise = torch.randn_like(x) for each batch"
    broken = """
encoder, decoder = nn.Linear(8, 8), nn.Linear(4, 8)
optimizer = optim.Adam([*encoder.parameters(), *decoder.parameters()])
noise = torch.randn(16, 4)  # <-
for _ in range(2):
    for xb in x.split(16):
        mu, logvar = encoder(xb).chunk(2, dim=1)
        z = mu + (logvar / 2).exp() * noise
        kl = 0.5 * (mu**2 + logvar.exp() - 1 - logvar).mean()
        loss = F.mse_loss(decoder(z), xb) + kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    fixed = edit(broken, {
        "noise = torch.randn(16, 4)  # <-": "",
        "mu, logvar = encoder(xb).chunk(2, dim=1)":
            "mu, logvar = encoder(xb).chunk(2, dim=1)\nnoise = torch.randn(16, 4)",
    })
    healthy = ("""
# Weights of the samples, in a program whose every step sees all of them.
net = nn.Linear(8, 1)
weights = torch.rand(64, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    loss = (weights * (net(x + 0.05 * torch.randn_like(x)) - t) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Fixed latent vectors show how a generator comes along.
generator, critic = nn.Linear(4, 8), nn.Linear(8, 1).requires_grad_(False)
fixed = torch.randn(16, 4)
optimizer = optim.Adam(generator.parameters())
for _ in range(8):
    loss = -critic(generator(torch.randn(16, 4))).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        shown = generator(fixed) * fixed.norm()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.draws: dict[int, _Draw] = {}
        self.inputs: dict[int, np.ndarray] = {}  # the latest of each model
        self.fresh: dict[int, int] = {}  # by length of a batch: how often the samples were others
        self.same: set[int] = set()  # lengths of batches that came again

    def on_draw(self, tensor: Any, spot: Spot | None) -> None:
        array = tensor._array
        if array.ndim and array.shape[0] > 3 and len(self.draws) < _MAX_DRAWS \
                and array.size < _MAX_NUMBERS:
            self.draws[id(tensor)] = _Draw(weakref.ref(tensor), array, spot, self.session.updates)
        if self.session.updates and len(self.draws) > _MAX_DRAWS // 2:
            self.draws = {k: d for k, d in self.draws.items() if d.tensor() is not None}

    def on_call(self, call: ModuleCall) -> None:
        if not call.recorded or not call.tensors or not self.session.watching:
            return
        array = call.tensors[0]._array
        if array.ndim < 1 or array.shape[0] < 4 or array.dtype.kind not in "fiu" \
                or call.tensors[0].requires_grad:
            return
        previous = self.inputs.get(id(call.module))
        self.inputs[id(call.module)] = array
        if previous is None or previous.shape != array.shape or previous is array:
            return
        length = array.shape[0]
        if _is_unrelated(previous, array):
            self.fresh[length] = self.fresh.get(length, 0) + 1
            if array.ndim == 2 and array.dtype.kind == "f" and array.shape[1] > 1:
                self._note_columns(call, previous, array)
        else:
            self.same.add(length)

    def on_operand(self, name: str, recorded: Any, constant: Any, spot: Spot | None) -> None:
        draw = self.draws.get(id(constant))
        if draw is not None and draw.tensor() is constant and name in ("mul", "_add") \
                and recorded._array.shape[:1] == constant._array.shape[:1]:
            self._note_use(draw, spot)

    def _note_columns(self, call: ModuleCall, previous: np.ndarray, array: np.ndarray) -> None:
        is_unchanged = (previous == array).all(0) & (array != array[:1]).any(0)
        for column in array.T[is_unchanged][:4]:
            for draw in list(self.draws.values()):
                if draw.values.size == column.size and draw.updates + 1 < self.session.updates \
                        and _is_alike(draw.values.reshape(-1), column):
                    self._note_use(draw, call.spot)

    def _note_use(self, draw: _Draw, spot: Spot | None) -> None:
        updates = self.session.updates
        if draw.used_at == updates:
            return
        draw.used_at, draw.uses = updates, draw.uses + 1
        length = draw.values.shape[0]
        if draw.uses > _TIMES and updates - draw.updates >= _TIMES and length not in self.same \
                and self.fresh.get(length, 0) >= _TIMES:
            self.report("the numbers drawn here are combined with different samples in each step",
                        draw.spot, spot, **{"steps with the same": draw.uses,
                                            "numbers": draw.values.size})


def _is_unrelated(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two batches have other samples, not the same ones with some noise."""
    if a.dtype.kind != "f":
        return bool((a != b).mean() > _MIN_DIFFERING)
    rows = a.reshape(len(a), -1)[:64], b.reshape(len(b), -1)[:64]
    centred = [r - r.mean(0) for r in rows]
    size = float(np.sqrt((centred[0] ** 2).sum() * (centred[1] ** 2).sum()))
    return size > 0 and float((centred[0] * centred[1]).sum()) < 0.5 * size \
        and not np.array_equal(np.sort(rows[0], 0), np.sort(rows[1], 0))


def _is_alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether one is the other, scaled and shifted."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return size > 0 and float(abs((a * b).sum())) > _MIN_CORRELATION * size
