"""F.normalize over the samples of the batch."""

from __future__ import annotations

from typing import Any

from ....tensor.tensor import Tensor
from ...events import Backward, ModuleCall
from ...finding import Level
from ...places import Spot
from ..rule import Rule


class NormalizedOverBatch(Rule):
    """Looks at the axis of F.normalize, where a model's outputs are normalised."""

    id = "normalized-over-the-batch"
    level = Level.LIKELY
    needs = ("on_function", "on_call")
    title = "F.normalize(..., dim=0) divides by a norm over the batch: samples are mixed"
    why = (
        "Embeddings (N, D) are to have length 1 each: dim=1. Told for two axes, where the first is "
        "as long as the batch that the model was given. Silent for weights and for square shapes."
    )
    fix = "F.normalize(x, dim=1), or dim=-1"
    broken = """
net = nn.Linear(8, 4)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    z = F.normalize(net(x), dim=0)  # <-
    loss = -(z @ z.T).diagonal().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = """
net = nn.Linear(8, 4)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    z = F.normalize(net(x), dim=1)
    loss = -(z @ z.T).diagonal().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    healthy = ("""
# Columns of a weight are the centres of classes.
weight = nn.Parameter(torch.randn(8, 3))
optimizer = optim.SGD([weight], lr=0.1)
for _ in range(3):
    loss = F.cross_entropy(10 * F.normalize(x, dim=1) @ F.normalize(weight, dim=0), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A single vector.
net = nn.Linear(8, 4)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for row in x[:3]:
    loss = -F.normalize(net(row), dim=0).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.batches: set[int] = set()

    def on_call(self, call: ModuleCall) -> None:
        if call.recorded:
            shapes = [tensor._array.shape for tensor in call.tensors]
            self.batches.update(shape[0] for shape in shapes if len(shape) > 1 and shape[0] > 1)

    def on_backward(self, backward: Backward) -> None:
        self.batches.clear()

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if not args or not isinstance(args[0], Tensor):
            return
        shape = args[0]._array.shape
        if name == "layer_norm":
            sizes = tuple(args[1] if len(args) > 1 else kwargs.get("normalized_shape", ()))
            if sizes == shape and len(shape) > 1 and shape[0] in self.batches \
                    and args[0]._node is not None:
                self.report("layer_norm takes mean and variance over all samples of the batch",
                            spot, normalized_shape=str(sizes))
            return
        if name != "normalize":
            return
        dim = args[2] if len(args) > 2 else kwargs.get("dim", 1)
        if dim == 0 and len(shape) == 2 and shape[0] != shape[1] and args[0]._node is not None \
                and shape[0] in self.batches and shape[1] not in self.batches:
            self.report("F.normalize divides by a norm over the samples of the batch", spot,
                        shape=str(shape), dim=0)
