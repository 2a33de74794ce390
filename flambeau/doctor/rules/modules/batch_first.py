"""Sequences whose batch is taken for time."""

from __future__ import annotations

from typing import Any

from ....tensor.tensor import Tensor
from ...events import Backward, LossCall, ModuleCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_RECURRENT = ("RNN", "LSTM", "GRU")
_MAX_CALLS = 16  # that wait for the loss


class BatchFirst(Rule):
    """Compares the axes of a sequence with the number of targets."""

    id = "batch-first"
    level = Level.LIKELY
    needs = ("on_layer", "on_loss")
    title = "a recurrent layer or attention receives (batch, time, features) but expects time first"
    why = (
        "Without batch_first=True the layer runs over the samples as if they were a sequence, and "
        "state leaks from one sample to the next. Reported when there is one target per index of "
        "the axis that the layer treats as time. Not reported for a batch of one or if both "
        "lengths agree."
    )
    fix = "batch_first=True in the layer, or x.transpose(0, 1)"
    broken = """
rnn, head = nn.GRU(3, 8), nn.Linear(8, 3)  # <-
optimizer = optim.Adam([*rnn.parameters(), *head.parameters()])
sequences = torch.randn(64, 12, 3)
for _ in range(3):
    output, _ = rnn(sequences)
    loss = F.cross_entropy(head(output[:, -1]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "rnn, head = nn.GRU(3, 8), nn.Linear(8, 3)  # <-":
            "rnn, head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 3)",
    })
    healthy = ("""
# A label for each step of one sequence.
rnn, head = nn.LSTM(8, 8), nn.Linear(8, 3)
optimizer = optim.Adam([*rnn.parameters(), *head.parameters()])
for _ in range(3):
    output, _ = rnn(x.view(64, 1, 8))
    loss = F.cross_entropy(head(output.view(64, 8)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Time first, as the layer wants it.
rnn, head = nn.GRU(3, 8), nn.Linear(8, 3)
optimizer = optim.Adam([*rnn.parameters(), *head.parameters()])
for _ in range(3):
    _, state = rnn(torch.randn(12, 64, 3))
    loss = F.cross_entropy(head(state[-1]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.waiting: list[tuple[Any, Spot | None, int, int]] = []  # layer, line, steps, batch
        self.lines: dict[type, Spot | None] = {}  # where the first of a kind was constructed

    def on_module_constructed(self, module: Any, spot: Spot | None) -> None:
        if hasattr(type(module), "self_attn") or "Transformer" in type(module).__name__:
            self.lines.setdefault(type(module), spot)  # copies have none of their own

    def on_layer(self, call: ModuleCall) -> None:
        self._note(call)

    def on_call(self, call: ModuleCall) -> None:
        if call.module._modules:
            self._note(call)

    def _note(self, call: ModuleCall) -> None:
        module = call.module
        if type(module).__name__ not in _RECURRENT or not call.recorded or not call.args:
            return
        first = call.args[0]
        if getattr(module, "batch_first", True) or not isinstance(first, Tensor) \
                or first._array.ndim != 3:
            return
        steps, batch = first._array.shape[:2]
        if steps != batch and batch > 1:
            self.waiting.append((module, call.spot, steps, batch))

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if name != "multi_head_attention_forward" or not args or not self.session.stack:
            return
        attention, shape = self.session.stack[-1], args[0]._array.shape
        first = getattr(attention, "batch_first", True)
        layer = next((m for m in self.session.stack if hasattr(m, "self_attn")), attention)
        if len(shape) == 3 and not first and shape[0] != shape[1] > 1 \
                and len(self.waiting) < _MAX_CALLS:
            self.waiting.append((layer, spot, *shape[:2]))

    def on_loss(self, call: LossCall) -> None:
        target = call.target
        if isinstance(target, Tensor) and call.recorded:
            for layer, spot, steps, batch in self.waiting:
                if target._array.size == steps and target._array.shape[:1] == (steps,):
                    self.report(
                        f"{type(layer).__name__} takes axis 0 ({steps}) for time and axis 1 "
                        f"({batch}) for the batch, but there are {steps} targets",
                        self._find_constructor(layer), spot, call.spot, steps=steps, batch=batch,
                        targets=steps,
                    )
        self.waiting.clear()

    def on_backward(self, backward: Backward) -> None:
        self.waiting.clear()

    on_gradient = on_backward

    def _find_constructor(self, layer: Any) -> Spot | None:
        """Return where a layer was constructed, or the layer it copies (TransformerEncoder)."""
        constructors = self.session.built_at
        alike = (spot for module, spot in list(constructors.items()) if type(module) is type(layer))
        return constructors.get(layer) or next(alike, None) or self.lines.get(type(layer))
