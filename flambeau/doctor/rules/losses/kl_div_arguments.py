"""kl_div of what are no log-probabilities."""

from __future__ import annotations

import numpy as np

from ....tensor.tensor import Tensor
from ...events import LossCall
from ...finding import Level
from ...graph import get_operator_name
from ...programs import edit
from ..rule import Rule
from .softmax_before_cross_entropy import are_probabilities

_MAX_LOG = 1e-3  # of a probability: 0, and rounding
_ROUNDING = 1e-6  # of a probability


class KlDivArguments(Rule):
    """Looks at the values of both arguments."""

    id = "kl-div-arguments"
    level = Level.CERTAIN
    needs = ("on_loss",)
    title = "kl_div takes log-probabilities as input and probabilities as target"
    why = (
        "For probabilities or logits the formula is not a divergence and may be negative. Certain "
        "if an input is positive or a target negative."
    )
    fix = "kl_div(log_softmax(input, dim=-1), softmax(target, dim=-1), reduction='batchmean')"
    broken = """
student, teacher = nn.Linear(8, 3), nn.Linear(8, 3).requires_grad_(False)
optimizer = optim.SGD(student.parameters(), lr=0.1)
for _ in range(4):
    target = F.softmax(teacher(x), dim=1)
    loss = F.kl_div(F.softmax(student(x), dim=1), target, reduction="batchmean")  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        'loss = F.kl_div(F.softmax(student(x), dim=1), target, reduction="batchmean")  # <-':
            'loss = F.kl_div(F.log_softmax(student(x), dim=1), target, reduction="batchmean")',
    })
    healthy = ("""
# Both as logarithms, and said so.
student, teacher = nn.Linear(8, 3), nn.Linear(8, 3).requires_grad_(False)
optimizer = optim.SGD(student.parameters(), lr=0.1)
for _ in range(4):
    log_p, log_q = F.log_softmax(student(x), dim=1), F.log_softmax(teacher(x), dim=1)
    loss = F.kl_div(log_p, log_q, reduction="batchmean", log_target=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# One-hot targets are probabilities.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = F.kl_div(F.log_softmax(net(x), 1), F.one_hot(y, 3).float(), reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def on_loss(self, call: LossCall) -> None:
        target = call.target
        if call.name != "kl_div" or not isinstance(target, Tensor) or not call.values.size:
            return
        values, target_values = call.values, target._array
        name = get_operator_name(call.node) if call.node is not None else ""
        origin = self.origin(call.node) if call.node is not None else []
        if name == "softmax" or are_probabilities(values, -1):
            self.report("the input of kl_div is probabilities; it takes log-probabilities",
                        call.spot, *origin, largest=float(values.max()))
        elif values.max() > _MAX_LOG:
            self.report("the input of kl_div is positive, so it is not log-probabilities",
                        call.spot,
                        *origin, largest=float(values.max()))
        if not call.argument("log_target", False) and target_values.dtype.kind == "f" \
                and target_values.min() < -_ROUNDING:
            self.report("the target of kl_div is negative, so it is not probabilities; "
                        "log-probabilities need log_target=True", call.spot,
                        smallest=float(np.min(target_values)))
