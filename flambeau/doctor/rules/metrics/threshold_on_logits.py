"""Logits that are compared with 0.5."""

from __future__ import annotations

import weakref
from typing import Any

from ....tensor.tensor import Tensor
from ...events import LossCall, ModuleCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule


class ThresholdOnLogits(Rule):
    """Looks at outputs of a model that is trained with a loss on logits, when they are compared
    with a number."""

    id = "threshold-on-logits"
    level = Level.LIKELY
    needs = ("on_loss", "on_threshold")
    title = "logits are compared with 0.5, which is a threshold for probabilities"
    why = (
        "A probability of 0.5 is a logit of 0: samples with logits in between are assigned to the "
        "wrong class. Reported when the output of a model trained with "
        "binary_cross_entropy_with_logits is compared directly with 0.5."
    )
    fix = "output > 0, or torch.sigmoid(output) > 0.5"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
labels = (t > 0).float()
for _ in range(4):
    output = net(x)
    loss = F.binary_cross_entropy_with_logits(output, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    accuracy = ((output > 0.5) == labels).float().mean()  # <-
"""
    fixed = edit(broken, {
        "accuracy = ((output > 0.5) == labels).float().mean()  # <-":
            "accuracy = ((output > 0) == labels).float().mean()",
    })
    healthy = ("""
# Probabilities are compared with 0.5.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
labels = (t > 0).float()
for _ in range(4):
    output = net(x)
    optimizer.zero_grad()
    F.binary_cross_entropy_with_logits(output, labels).backward()
    optimizer.step()
    accuracy = ((output.sigmoid() > 0.5) == labels).float().mean()
""", """
# A regression: 0.5 is a number as any other.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    output = net(x)
    optimizer.zero_grad()
    F.mse_loss(output, t).backward()
    optimizer.step()
    high = (output > 0.5).float().mean()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.models: set[int] = set()  # whose outputs are logits
        self.outputs: list[tuple[Any, int]] = []  # the latest, with their models

    def on_call(self, call: ModuleCall) -> None:
        if isinstance(call.output, Tensor):
            self.outputs = [*self.outputs[-3:], (weakref.ref(call.output), id(call.module))]

    def _find_model(self, tensor: Tensor) -> int | None:
        for reference, model in self.outputs:
            output = reference()
            if output is None:
                continue
            is_output = output is tensor or (
                tensor._array.size == output._array.size and tensor._array.size > 0
                and tensor.data_ptr() == output.data_ptr()
            )
            if is_output:
                return model
        return None

    def on_loss(self, call: LossCall) -> None:
        if call.name == "binary_cross_entropy_with_logits":
            model = self._find_model(call.input)
            if model is not None:
                self.models.add(model)

    def on_threshold(self, tensor: Any, bound: float, spot: Spot | None) -> None:
        if bound != 0.5 or tensor._array.dtype.kind != "f" or not tensor._array.size:
            return
        model = self._find_model(tensor)
        values = tensor._array
        if model in self.models and (values.min() < 0 or values.max() > 1):
            n_miscounted = int(((values > 0) & (values <= 0.5)).sum())
            self.report("logits are compared with 0.5", spot,
                        **{"range": [float(values.min()), float(values.max())],
                           "counted for the wrong class": n_miscounted})
