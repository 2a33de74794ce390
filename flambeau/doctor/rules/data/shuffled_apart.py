"""Inputs and targets that are shuffled each by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...events import Backward, LossCall, ModuleCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_MAX_ORDERS = 256  # that are remembered


def find_owner(array: Any) -> int:
    """What identifies the memory that an array looks at."""
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        array = array.base
    return id(array)


class ShuffledApart(Rule):
    """Follows permutations, and batches of loaders that shuffle, to inputs and targets."""

    id = "shuffled-apart"
    level = Level.CERTAIN
    needs = ("on_loss", "on_call")
    title = "inputs and targets are shuffled by different permutations: they no longer match"
    why = (
        "Two calls of randperm, or two shuffling loaders, produce two orders. Reported when a "
        "model's input and the targets of its loss were ordered by different permutations. Not "
        "reported if both use the same permutation."
    )
    fix = "one permutation for both: order = torch.randperm(n); x, y = x[order], y[order]"
    broken = """
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    xs = x[torch.randperm(64)]
    ys = y[torch.randperm(64)]  # <-
    for xb, yb in zip(xs.split(16), ys.split(16)):
        loss = F.cross_entropy(net(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    fixed = edit(broken, {
        "xs = x[torch.randperm(64)]": "order = torch.randperm(64)\nxs, ys = x[order], y[order]",
        "ys = y[torch.randperm(64)]  # <-": "",
    })
    healthy = ("""
# Each row is its own target.
net = nn.Linear(8, 8)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    rows = x[torch.randperm(64)]
    loss = F.mse_loss(net(rows), rows)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Labelled and unlabelled data from two loaders that shuffle.
labelled = DataLoader(TensorDataset(x, y), 16, shuffle=True)
unlabelled = DataLoader(TensorDataset(x + 1), 16, shuffle=True)
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for (xb, yb), (other,) in zip(labelled, unlabelled):
    loss = F.cross_entropy(net(xb), yb) + net(other).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.permutations: dict[int, Any] = {}  # tensors of randperm, by id
        # By memory: which permutation or loader put it in order, where, and the memory itself.
        self.orders: dict[int, tuple[int, int, Spot | None, Any]] = {}
        self.inputs: list[tuple[int, int, Spot | None, Any]] = []

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if name == "randperm" and len(self.permutations) < _MAX_ORDERS:
            self.permutations[id(args[0])] = args[0]
        elif name == "getitem" and len(args) == 3 and id(args[1]) in self.permutations:
            order = self.permutations[id(args[1])]
            n = int(order._array.size)
            if args[0]._array.ndim and args[0]._array.shape[0] == n and n > 3:
                self._remember(args[2], id(order), n, spot)

    def on_batch(self, iterator: Any, batch: Any, spot: Spot | None) -> None:
        loader = self.session.loaders[iterator]
        if type(getattr(loader, "sampler", None)).__name__ != "RandomSampler":
            return
        for element in batch if isinstance(batch, (list, tuple)) else (batch,):
            if isinstance(element, Tensor):
                self._remember(element, id(loader), len(loader.dataset), spot)

    def _remember(self, tensor: Tensor, order: int, n: int, spot: Spot | None) -> None:
        if len(self.orders) > _MAX_ORDERS:
            self.orders.clear()
        self.orders[find_owner(tensor._array)] = order, n, spot, tensor._array

    def on_call(self, call: ModuleCall) -> None:
        if call.recorded:
            for tensor in call.tensors:
                entry = self.orders.get(find_owner(tensor._array))
                if entry is not None:
                    self.inputs.append(entry)

    def on_loss(self, call: LossCall) -> None:
        if not isinstance(call.target, Tensor) or len(self.inputs) != 1:
            return
        target, entry = self.orders.get(find_owner(call.target._array)), self.inputs[0]
        if target is not None and target[0] != entry[0] and target[1] == entry[1]:
            self.report("the targets are in a different order than the inputs", target[2], entry[2],
                        call.spot, samples=target[1])

    def on_backward(self, backward: Backward) -> None:
        self.inputs.clear()

    on_gradient = on_backward
