"""Generators that are trained to be found out."""

from __future__ import annotations

import enum
import weakref
from typing import Any, NamedTuple

import numpy as np

from ....tensor.tensor import Tensor
from ...events import LossCall, ModuleCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_LOSSES = ("binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss")
_TIMES = 4
_MAX_DETACHED = 16  # that are remembered
_MAX_CALLS = 4  # that are remembered


class Origin(enum.Enum):
    """Where the input of a network comes from."""

    GENERATOR = enum.auto()  # with its history
    DETACHED = enum.auto()  # the generator, too
    DATA = enum.auto()


class _JudgeCall(NamedTuple):
    """A call of a network. `output`: weakly."""

    network: int
    output: weakref.ref[Tensor]
    origin: Origin


class GeneratorTarget(Rule):
    """Compares what a judge is told of detached samples with what their maker aims at."""

    id = "generator-aims-at-fake"
    level = Level.LIKELY
    needs = ("on_loss", "on_cut")
    title = "the generator's loss uses the target of generated samples: it learns to be detected"
    why = (
        "The discriminator's target is 0 for generated samples and 1 for real ones. The generator "
        "wants its samples to be taken for real, so its target is 1. Reported when a network's "
        "output for detached samples and for samples with a gradient have the same constant "
        f"target, and other samples have another one, {_TIMES} times. Not reported if the loss is "
        "negated, or for other losses."
    )
    fix = "criterion(judge(fake), ones)"
    broken = """
maker, judge = nn.Linear(8, 8), nn.Linear(8, 1)
first, second = optim.Adam(judge.parameters()), optim.Adam(maker.parameters())
ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
for _ in range(6):
    fake = maker(torch.randn(64, 8))
    first.zero_grad()
    (F.binary_cross_entropy_with_logits(judge(x), ones)
     + F.binary_cross_entropy_with_logits(judge(fake.detach()), zeros)).backward()
    first.step()
    second.zero_grad()
    loss = F.binary_cross_entropy_with_logits(judge(fake), zeros)  # <-
    loss.backward()
    second.step()
"""
    fixed = edit(broken, {
        "loss = F.binary_cross_entropy_with_logits(judge(fake), zeros)  # <-":
            "loss = F.binary_cross_entropy_with_logits(judge(fake), ones)",
    })
    healthy = (edit(broken, {
        # The loss in its first form: the judge's, negated.
        "loss = F.binary_cross_entropy_with_logits(judge(fake), zeros)  # <-":
            "loss = -F.binary_cross_entropy_with_logits(judge(fake), zeros)",
    }), edit(broken, {
        # Real is 0, generated is 1.
        "ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)":
            "ones, zeros = torch.zeros(64, 1), torch.ones(64, 1)",
        "loss = F.binary_cross_entropy_with_logits(judge(fake), zeros)  # <-":
            "loss = F.binary_cross_entropy_with_logits(judge(fake), ones)",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.detached: dict[int, None] = {}  # addresses of the latest tensors that detach() gave
        self.calls: list[_JudgeCall] = []  # the latest
        self.targets: dict[tuple[int, Origin], float] = {}  # by network and origin of the input
        self.times: dict[Spot | None, int] = {}
        self.pending: list[tuple[Any, Spot | None]] = []  # losses with the judge's target

    def on_cut(self, method: str, tensor: Any, spot: Spot | None) -> None:
        if method == "detach()":
            self.detached[tensor._array.ctypes.data] = None
            if len(self.detached) > _MAX_DETACHED:
                self.detached.pop(next(iter(self.detached)))

    def on_call(self, call: ModuleCall) -> None:
        if call.recorded and call.tensors and isinstance(call.output, Tensor) \
                and self.session.watching:
            first = call.tensors[0]
            origin = Origin.GENERATOR if first._node is not None else \
                Origin.DETACHED if first._array.ctypes.data in self.detached else Origin.DATA
            self.calls = [*self.calls[1 - _MAX_CALLS :],
                          _JudgeCall(id(call.module), weakref.ref(call.output), origin)]

    def on_loss(self, call: LossCall) -> None:
        target = call.target
        if call.name not in _LOSSES or not isinstance(target, Tensor) or not target._array.size \
                or np.ptp(target._array) > 0:
            return
        value = float(target._array.flat[0])
        for network, reference, origin in self.calls:
            output = reference()
            if isinstance(output, Tensor) and np.shares_memory(output._array, call.values):
                self.targets[network, origin] = value
                of_generated = self.targets.get((network, Origin.DETACHED))
                of_real = self.targets.get((network, Origin.DATA))
                if origin is Origin.GENERATOR and of_generated == value \
                        and of_real not in (None, value):
                    self.pending.append((call.result, call.spot))

    def on_backward(self, backward: Any) -> None:
        pending, self.pending = self.pending, []
        self.calls.clear()
        for result, spot in pending:
            if result is backward.tensor:  # it is what is minimized, with its own sign
                self.times[spot] = self.times.get(spot, 0) + 1
                if self.times[spot] >= _TIMES:
                    self.report("the discriminator's target for generated samples is also the "
                                "generator's",
                                spot, backward.spot, times=self.times[spot])
