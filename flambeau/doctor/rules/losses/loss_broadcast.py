"""Predictions and targets that broadcast against each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....native.foundation.user_frames import find_user_frame
from ....tensor.tensor import Tensor
from ...events import Backward, LossCall
from ...finding import Level
from ...graph import find_spot, get_node, get_operator_name
from ...places import Spot, list_callers
from ...programs import edit
from ..rule import Rule

_ELEMENTWISE = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "poisson_nll_loss",
                "gaussian_nll_loss", "kl_div", "soft_margin_loss")
# What a user writes to have pairs on purpose.
_AXES_ADDED = ("unsqueeze", "_slice", "index", "_index", "expand")


def match_column_and_row(a: Any, b: Any) -> int:
    """N, where one shape is (..., N, 1) and the other (..., N) with N > 1; else 0."""
    for column, row in ((a._array.shape, b._array.shape), (b._array.shape, a._array.shape)):
        if row and column == (*row, 1) and row[-1] > 1:
            return int(row[-1])
    return 0


class LossBroadcast(Rule):
    """Looks at the shapes of a loss's arguments, and of differences that are recorded."""

    id = "loss-broadcast"
    level = Level.LIKELY
    needs = ("on_backward",)
    title = "predictions (N, 1) and targets (N,) broadcast to (N, N): all pairs are compared"
    why = (
        "Each prediction is compared with every target, so the best the network can do is to "
        "predict their mean. Certain for loss functions; likely for a difference, and for a "
        "difference of returns and values that weights log-probabilities. Not reported for "
        "pairwise losses, where both sides require grad or the program added an axis."
    )
    fix = "give both the same shape: target.unsqueeze(1), or prediction.squeeze(1)"
    broken = """
net = nn.Linear(8, 1)
target = x.sum(1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(4):
    loss = ((net(x) - target) ** 2).mean()  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = ((net(x) - target) ** 2).mean()  # <-":
            "loss = ((net(x).squeeze(1) - target) ** 2).mean()",
    })
    healthy = ("""
# All pairs on purpose: a ranking loss.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(4):
    score = net(x).squeeze(1)
    better = (t > t.T).float()
    loss = (F.softplus(-(score.unsqueeze(1) - score.detach())) * better).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# One target a row against three quantiles.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.01)
q = torch.tensor([0.1, 0.5, 0.9])
for _ in range(4):
    error = t - net(x)
    loss = torch.maximum(q * error, (q - 1) * error).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.spread: dict[int, Spot | None] = {}  # by N: differences of constants (N, 1) and (N,)

    def on_spread(self, a: Any, b: Any, spot: Spot | None) -> None:
        n = match_column_and_row(a, b)
        column, row = (a, b) if a._array.ndim > b._array.ndim else (b, a)
        base = column._base
        if n and row._array.ndim == 1 and (base is None or base._array.ndim > 1):
            self.spread[n] = spot

    def on_operand(self, name: str, recorded: Any, constant: Any, spot: Spot | None) -> None:
        n = recorded._array.size
        if n in self.spread and constant._array.shape == (n, n) and name in ("mul", "_mul"):
            self.report(
                f"a difference of ({n}, 1) and ({n},) has shape ({n}, {n}), and weighs {n} "
                "numbers: each meets those of all samples", self.spread[n], spot,
                fix="give both the same shape: value.squeeze(1)", samples=n)

    def on_backward(self, backward: Backward) -> None:
        self.spread.clear()

    on_gradient = on_backward

    def on_loss(self, call: LossCall) -> None:
        target = call.target
        if call.name not in _ELEMENTWISE or not isinstance(target, Tensor):
            return
        a, b = call.input._array.shape, target._array.shape
        if a == b or not a or not b:
            return
        n = match_column_and_row(call.input, target)
        if n or (len(a) != len(b) and a[0] == b[0] > 1 and a[-1] != b[-1]):
            self.report(
                f"{call.name} broadcasts {a} against {b}: every prediction is compared with "
                "every target",
                call.spot, level=Level.CERTAIN if n else Level.LIKELY,
                fix="give both the same shape: target.unsqueeze(1), or prediction.squeeze(1)",
                pairs=n * n or None, samples=a[0],
            )

    def on_broadcast(self, name: str, a: Any, b: Any, spot: Spot | None) -> None:
        n = match_column_and_row(a, b)
        if not n or name not in ("_sub", "sub") or a.requires_grad and b.requires_grad:
            return
        column = a if a._array.ndim > b._array.ndim else b
        node = get_node(column._node)
        base = column._base
        if node is not None and not isinstance(node, Tensor) \
                and get_operator_name(node) in _AXES_ADDED:
            return
        if base is not None and base is (b if column is a else a):
            return
        self.report(
            f"a difference of {a._array.shape} and {b._array.shape} has shape "
            f"{np.broadcast_shapes(a._array.shape, b._array.shape)}: every prediction meets every "
            "target", *_list_lines(a, b), spot, self._find_reshape(a, b), pairs=n * n, samples=n,
        )

    def _find_reshape(self, a: Any, b: Any) -> Spot | None:
        """Where the prediction got its shape."""
        node = get_node((a if a._node is not None else b)._node)
        return None if node is None or isinstance(node, Tensor) else find_spot(node)


def _list_lines(a: Any, b: Any) -> tuple[Spot, ...]:
    """The call of the function that takes both tensors as they are, such as a loss: its caller is
    to give them one shape."""
    frame, spots = find_user_frame(1), list_callers(2)
    if frame is None or len(spots) < 2:
        return ()
    names = frame.f_code.co_varnames[:frame.f_code.co_argcount]
    supplied = [frame.f_locals.get(name) for name in names]
    is_direct = all(any(value is tensor for value in supplied) for tensor in (a, b))
    return spots[1:] if is_direct else ()
