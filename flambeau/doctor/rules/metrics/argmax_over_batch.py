"""The best sample of each class where the best class of each sample is meant."""

from __future__ import annotations

from typing import Any

from ....tensor.tensor import Tensor
from ...events import LossCall, ModuleCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_CALLS = 3


class ArgmaxOverBatch(Rule):
    """Looks at the axis of argmax and max, where they take a classifier's output."""

    id = "argmax-over-the-batch"
    level = Level.LIKELY
    needs = ("on_best", "on_loss", "on_call")
    title = "argmax over axis 0 returns the best sample for each class, not a class for each sample"
    why = (
        "A batch of scores is (N, C), and a prediction is the best of C: argmax(dim=1). Reported "
        "when a model's output of that shape is trained with cross_entropy, or gather(1, ...) "
        f"selects an action from each row, and its argmax along axis 0 is taken in {_CALLS} "
        "batches or compared with labels. Not reported if the result is used as an index."
    )
    fix = "argmax(dim=1), or dim=-1"
    broken = """
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
net.eval()
right = 0
with torch.no_grad():
    for xb, yb in zip(x.split(16), y.split(16)):
        best = net(xb).argmax(dim=0)  # <-
        right += sum(int(a) == int(b) for a, b in zip(best, yb))
"""
    fixed = edit(broken, {
        "best = net(xb).argmax(dim=0)  # <-": "best = net(xb).argmax(dim=1)",
    })
    healthy = ("""
# The sample that looks most like each class, of every batch.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    typical = [xb[net(xb).argmax(dim=0)] for xb in x.split(16)]
""", """
# One sample at a time: axis 0 is that of the classes.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    right = sum(int(net(row).argmax(dim=0)) == int(label) for row, label in zip(x[:9], y))
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.classes: set[int] = set()
        self.shape: tuple[int, ...] = ()  # of the latest output
        self.times: dict[Spot | None, int] = {}
        self.latest: tuple[Tensor, Spot | None] | None = None  # the best of the latest output

    def on_loss(self, call: LossCall) -> None:
        if call.name in ("cross_entropy", "nll_loss") and call.recorded and call.values.ndim == 2:
            self.classes.add(call.values.shape[1])

    def on_call(self, call: ModuleCall) -> None:
        output = call.output
        batched = isinstance(output, Tensor) and output._array.ndim == 2 and call.tensors \
            and call.tensors[0]._array.shape[:1] == output._array.shape[:1]
        self.shape, self.latest = (output._array.shape if batched else ()), None

    def on_best(self, scores: Any, dim: int, indices: Any, spot: Spot | None) -> None:
        shape = scores._array.shape
        if dim in (0, -2) and shape == self.shape and shape[0] > 1 and shape[1] in self.classes:
            self.latest = indices, spot
            self._count(spot, 1, shape)

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if name == "gather" and len(args) > 1 and args[1] == 1 and args[0].dim() == 2:
            self.classes.add(args[0]._array.shape[1])
        elif name == "getitem" and self.latest is not None and args[1] is self.latest[0]:
            self.times[self.latest[1]] = -1_000_000

    def on_compare(self, a: Any, b: Any, result: Any, spot: Spot | None) -> None:
        if self.latest is not None and (a is self.latest[0] or b is self.latest[0]):
            self._count(self.latest[1], _CALLS, self.shape)

    def _count(self, spot: Spot | None, times: int, shape: tuple[int, ...]) -> None:
        self.times[spot] = self.times.get(spot, 0) + times
        if self.times[spot] >= _CALLS:
            self.report("argmax along axis 0 of scores is a sample for each class", spot,
                        shape=str(shape), dim=0)
