"""A moving average that shares the memory of what it averages."""

from __future__ import annotations

import weakref
from typing import Any

from ....native.foundation.user_frames import find_user_frame
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule
from .aliased import alias_line

_TIMES = 3
_MAX_ALIASES = 4096  # tensors that are remembered
_MAX_STATE_ENTRIES = 256  # of a state dict
_DECAY_TOLERANCE = 1e-6


class AverageOfItself(Rule):
    """Looks at in-place updates that mix a tensor with its own memory."""

    id = "average-of-itself"
    level = Level.CERTAIN
    needs = ("on_mixed",)
    title = "the average or target network is the model's own memory: always equal to it"
    why = (
        "parameters(), .data, detach() and state_dict() return the weights themselves, not "
        "copies. Reported when lerp_(), copy_(), or mul_(d) and add_(..., alpha=1 - d) mix a "
        f"trained parameter with itself {_TIMES} times."
    )
    fix = "copy first: p.detach().clone(), or copy.deepcopy(model)"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
average = {name: p.data for name, p in net.named_parameters()}  # <-
for _ in range(4):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
    for name, p in net.named_parameters():
        average[name].mul_(0.9).add_(p.data, alpha=0.1)
"""
    fixed = edit(broken, {
        "average = {name: p.data for name, p in net.named_parameters()}  # <-":
            "average = {name: p.data.clone() for name, p in net.named_parameters()}",
    })
    healthy = (edit(fixed, {
        # Weight decay by hand.
        "average[name].mul_(0.9).add_(p.data, alpha=0.1)": "p.data.add_(p.data, alpha=-0.01)",
    }), edit(fixed, {
        # Weights that shrink at each step, and are doubled in the end.
        "average[name].mul_(0.9).add_(p.data, alpha=0.1)":
            "p.data.mul_(0.99)\np.data.add_(p.data, alpha=1e-4)",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.aliases: dict[int, tuple[Any, Spot | None]] = {}  # tensors on a parameter's memory
        self.scaled: tuple[int, float] = 0, 0.0  # address and factor of the last mul_()
        self.times = 0

    def on_alias(self, result: Any, spot: Spot | None) -> None:
        if len(self.aliases) < _MAX_ALIASES:
            self.aliases[id(result)] = weakref.ref(result), spot

    def on_state(self, module: Any, state: Any, spot: Spot | None) -> None:
        for value in list(state.values())[:_MAX_STATE_ENTRIES]:
            self.on_alias(value, spot)

    def on_mixed(self, name: str, tensor: Any, other: Any, fraction: float,
                 spot: Spot | None) -> None:
        memory = tensor.data_ptr()
        if name == "mul_":
            self.scaled = memory, fraction
            return
        scaled, self.scaled = self.scaled, (0, 0.0)
        is_average = scaled[0] == memory and abs(scaled[1] + fraction - 1) < _DECAY_TOLERANCE
        if name == "add_" and not is_average:
            return
        if not any(p is not None and p.data_ptr() == memory for p in (
            reference() for reference in list(self.session.optimized.values())
        )):
            return
        self.times += 1
        if self.times == _TIMES:
            copy_of = self.aliases.get(id(tensor))
            origin = copy_of[1] if copy_of is not None and copy_of[0]() is tensor else \
                alias_line(self.session, find_user_frame(1))
            self.report(f"{name}() mixes a parameter with itself: both share their memory",
                        origin, spot)
