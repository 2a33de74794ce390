"""An activation at the output that cannot reach the targets."""

from __future__ import annotations

import math

from ....tensor.tensor import Tensor
from ...events import LossCall
from ...finding import Level
from ...graph import get_operator_name
from ...programs import edit
from ..rule import Rule

_RANGES = {"relu_only": (0.0, math.inf), "relu": (0.0, math.inf), "sigmoid": (0.0, 1.0),
           "tanh": (-1.0, 1.0), "softmax": (0.0, 1.0)}
_POSITIVE = ("exp", "softplus", "relu", "relu_only")
_REGRESSION = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
_LOGITS = ("cross_entropy", "binary_cross_entropy_with_logits", "nll_loss", "multi_margin_loss")
_SHARE = 0.15  # of the targets that have to be out of reach
_MIN_NUMBERS = 8
_ROUNDING = 1e-6


class OutputRange(Rule):
    """Looks at the last activation, and at the targets."""

    id = "output-cannot-reach-target"
    level = Level.LIKELY
    needs = ("on_loss",)
    title = "the last activation cannot produce the values that the loss asks for"
    why = (
        "A ReLU produces no negative number and a sigmoid nothing above 1: such targets are out "
        "of reach, and saturated units learn nothing. Before a loss on logits, a ReLU prevents "
        "negative predictions. After exp(), poisson_nll_loss applies exp() again unless "
        "log_input=False. Not reported if less than 15 % of the targets are out of reach."
    )
    fix = "remove the last activation"
    broken = """
net = nn.Sequential(
    nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1),
    nn.ReLU(),  # <-
)
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "net = nn.Sequential(":
            "net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))",
        "nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1),": "",
        "nn.ReLU(),  # <-": "",
        ")": "",
    })
    healthy = ("""
# Targets that are never negative.
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1), nn.ReLU())
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    loss = F.mse_loss(net(x), t.abs())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Images from 0 to 1, with a little noise on them.
net = nn.Sequential(nn.Linear(8, 8), nn.Sigmoid())
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    target = torch.rand(64, 8) + 0.02 * torch.randn(64, 8)
    loss = F.mse_loss(net(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def on_loss(self, call: LossCall) -> None:
        name = get_operator_name(call.node) if call.node is not None else ""
        if name not in (*_RANGES, *_POSITIVE) or not call.recorded or not call.values.size:
            return
        if call.name == "poisson_nll_loss":
            if call.argument("log_input", True) is True and name in _POSITIVE:
                self.report(f"poisson_nll_loss takes the rate's logarithm and is given what {name} "
                            "gives: exp is applied to it once more", *self.origin(call.node),
                            call.spot, fix="remove the last activation, or pass log_input=False")
            return
        activation = "relu" if name.startswith("relu") else name
        if call.name in _LOGITS and activation == "relu":
            self.report(f"{call.name} receives the output of a ReLU, but logits may be negative",
                        *self.origin(call.node), call.spot,
                        zeros=f"{float((call.values == 0).mean()):.0%}")
            return
        target = call.target
        if call.name not in _REGRESSION or not isinstance(target, Tensor) or target.requires_grad \
                or target._array.shape != call.values.shape or call.values.size < _MIN_NUMBERS:
            return
        if name not in _RANGES:
            return
        low, high = _RANGES[name]
        values = target._array
        outside_share = ((values < low - _ROUNDING) | (values > high + _ROUNDING)).mean()
        if outside_share >= _SHARE:
            self.report(
                f"{float(outside_share):.0%} of the targets lie outside of what {activation} can "
                "give",
                *self.origin(call.node), call.spot,
                targets=[float(target._array.min()), float(target._array.max())],
            )
