"""softmax over the batch instead of the classes."""

from __future__ import annotations

from typing import Any

from ....tensor.tensor import Tensor
from ...events import Backward, LossCall
from ...finding import Level
from ...graph import get_array, get_operator_name, get_saved
from ...programs import edit
from ..rule import Rule


def _find_axis(node: Any) -> tuple[int, tuple[int, ...]] | None:
    """The axis of a softmax and the shape of its output."""
    if get_operator_name(node) not in ("softmax", "log_softmax"):
        return None
    output, dim = get_array(get_saved(node, "y")), get_saved(node, "dim")
    if output is None or not isinstance(dim, int) or not output.ndim:
        return None
    return dim % output.ndim, output.shape


class SoftmaxOverTheBatch(Rule):
    """Looks at the axis of each softmax on the way to a loss, beside the number of targets."""

    id = "softmax-over-the-batch"
    level = Level.LIKELY
    needs = ("on_loss",)
    title = "softmax runs over the samples of the batch, or over pixels, instead of the classes"
    why = (
        "With dim=0 the samples of a batch compete with each other, and a sample's probabilities "
        "do not sum to 1. Certain if the result is the input of the loss; likely if it is used on "
        "the way there. For images, classes are axis 1, and dim=-1 runs over the width. Not "
        "reported for square similarity matrices (contrastive losses) or for attention over an "
        "axis that is not the batch."
    )
    fix = "softmax over the classes: dim=1, or dim=-1"
    broken = """
net = nn.Linear(8, 3)
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    log_p = F.log_softmax(net(x), dim=0)  # <-
    loss = F.nll_loss(log_p, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "log_p = F.log_softmax(net(x), dim=0)  # <-": "log_p = F.log_softmax(net(x), dim=1)",
    })
    healthy = ("""
# A contrastive loss in both directions: rows and columns are samples.
net = nn.Linear(8, 4)
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    similarity = net(x) @ net(x + 0.1).T
    labels = torch.arange(64)
    loss = F.nll_loss(F.log_softmax(similarity, dim=1), labels) \\
        + F.nll_loss(F.log_softmax(similarity, dim=0).T, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Attention over time, which is the first axis here.
score, head = nn.Linear(8, 1), nn.Linear(8, 3)
optimizer = optim.Adam([*score.parameters(), *head.parameters()])
for _ in range(4):
    steps = torch.randn(12, 16, 8)
    pooled = (F.softmax(score(steps), dim=0) * steps).sum(0)
    loss = F.cross_entropy(head(pooled), y[:16])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")
    batch = 0
    loss_spot: Any = None

    def on_loss(self, call: LossCall) -> None:
        target = call.target
        rows = target._array.shape[0] if isinstance(target, Tensor) and target._array.ndim else 0
        self.batch, self.loss_spot = rows, call.spot
        if call.name not in ("nll_loss", "cross_entropy", "kl_div") or call.node is None:
            return
        axis = _find_axis(call.node)
        if axis is None or call.input._array.shape != axis[1] or rows < 2:
            return
        if axis[0] > 1 and call.name != "kl_div":
            self.report(f"softmax runs over axis {axis[0]}, and {call.name} has its classes on "
                        "axis 1", *self.origin(call.node), call.spot, level=Level.CERTAIN,
                        fix="softmax over the classes: dim=1", shape=str(axis[1]), dim=axis[0])
        elif axis[0] == 0 and len(axis[1]) > 1 and axis[1][0] == rows and axis[1][1] != rows:
            self.report("softmax runs over the samples: each column sums to 1, not each row",
                        *self.origin(call.node), call.spot, level=Level.CERTAIN,
                        shape=str(axis[1]), dim=0)

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched or self.batch < 2:
            return
        for node in backward.graph.nodes:
            axis = _find_axis(node)
            if axis is None or axis[0] != 0 or len(axis[1]) < 2:
                continue
            if axis[1][0] == self.batch and self.batch not in axis[1][1:] and axis[1][-1] > 1:
                self.report("softmax runs over the samples of the batch", *self.origin(node),
                            self.loss_spot, shape=str(axis[1]), dim=0)
        self.batch = 0

    on_gradient = on_backward
