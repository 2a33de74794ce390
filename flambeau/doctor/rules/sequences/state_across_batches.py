"""A recurrent state that goes from one shuffled batch to the next."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...events import ModuleCall
from ...finding import Level
from ...programs import edit
from ..rule import Rule

_LAYERS = ("RNN", "LSTM", "GRU")


class StateAcrossBatches(Rule):
    """Compares the state that a recurrent layer is given with what it returned for the batch
    before."""

    id = "state-across-shuffled-batches"
    level = Level.LIKELY
    needs = ("on_layer",)
    title = "a recurrent state is carried to the next batch although batches are shuffled"
    why = (
        "The state belongs to other samples. Reported for batches from a shuffling loader and for "
        "batches selected by indices that randperm or randint drew. Not reported if data is read "
        "in order, such as a long text in pieces, or if several calls work on one batch."
    )
    fix = "start each batch without a state: rnn(x); or read the data in order: shuffle=False"
    broken = """
data = TensorDataset(torch.randn(64, 5, 4), y)
loader = DataLoader(data, batch_size=8, shuffle=True)
rnn, head, state = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 3), None
optimizer = optim.Adam([*rnn.parameters(), *head.parameters()])
for xb, yb in loader:
    out, state = rnn(xb, state)  # <-
    state = state.detach()
    loss = F.cross_entropy(head(out[:, -1]), yb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "rnn, head, state = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 3), None":
            "rnn, head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 3)",
        "out, state = rnn(xb, state)  # <-": "out, state = rnn(xb)",
        "state = state.detach()": "",
    })
    healthy = ("""
# One long series, in order.
data = TensorDataset(torch.randn(64, 5, 4), y)
rnn, head, state = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 3), None
optimizer = optim.Adam([*rnn.parameters(), *head.parameters()])
for xb, yb in DataLoader(data, batch_size=8):
    out, state = rnn(xb, state)
    state = state.detach()
    loss = F.cross_entropy(head(out[:, -1]), yb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A shuffled batch, worked on in two pieces.
data = TensorDataset(torch.randn(64, 6, 4), y)
rnn, head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 3)
optimizer = optim.Adam([*rnn.parameters(), *head.parameters()])
for xb, yb in DataLoader(data, batch_size=8, shuffle=True):
    state = None
    for piece in xb.split(3, dim=1):
        out, state = rnn(piece, state)
        state = state.detach()
        loss = F.cross_entropy(head(out[:, -1]), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.batches = 0
        self.shuffled = False
        self.last: dict[int, tuple[int, np.ndarray]] = {}  # by layer: the batch, and its last state
        self.orders: list[np.ndarray] = []  # indices drawn at random, the latest last
        self.index: np.ndarray | None = None  # that of the batch

    def on_batch(self, iterator: Any, batch: Any, spot: Any) -> None:
        self.batches += 1
        loader = self.session.loaders.get(iterator)
        self.shuffled = type(getattr(loader, "sampler", None)).__name__ == "RandomSampler"

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Any) -> None:
        if name == "randperm":
            self.on_draw(args[0], spot)
        elif name == "getitem" and not self.session.stack:
            index = args[1]._array
            if index.dtype.kind == "i" and index.ndim == 1 and any(
                np.may_share_memory(index, order) for order in self.orders
            ) and (self.index is None or not np.array_equal(index, self.index)):
                self.batches, self.shuffled, self.index = self.batches + 1, True, index.copy()

    def on_draw(self, tensor: Any, spot: Any) -> None:
        if tensor._array.dtype.kind == "i":
            self.orders = [*self.orders[-3:], tensor._array]

    def on_layer(self, call: ModuleCall) -> None:
        if type(call.module).__name__ not in _LAYERS or not call.module.training:
            return
        initial = call.args[1] if len(call.args) > 1 else call.kwargs.get("hx")
        initial = initial[0] if isinstance(initial, tuple) else initial
        previous = self.last.get(id(call.module))
        if isinstance(initial, Tensor) and previous is not None and previous[0] != self.batches \
                and self.shuffled and call.recorded and np.array_equal(initial._array,
                                                                       previous[1]) \
                and initial._array.any():
            self.report("the final state of one batch is the initial state of the next, which "
                        "holds other samples",
                        call.spot, self.session.call_spot, layer=type(call.module).__name__)
        state = call.output[1] if isinstance(call.output, tuple) else None
        state = state[0] if isinstance(state, tuple) else state
        if isinstance(state, Tensor):
            self.session.follow(call.module)
            self.last[id(call.module)] = self.batches, state._array.copy()
