"""F.normalize over the samples of the batch."""

from __future__ import annotations

import weakref
from typing import Any

from ....tensor.tensor import Tensor
from ...events import Backward, ModuleCall
from ...finding import Level
from ...graph import Graph, find_producer, find_spot, get_node, get_operator_name
from ...places import Spot
from ...programs import edit
from ..rule import Rule


class NormalizedOverBatch(Rule):
    """Looks at the axis of F.normalize, where a model's outputs are normalized."""

    id = "normalized-over-the-batch"
    level = Level.LIKELY
    needs = ("on_function", "on_call")
    title = "F.normalize(..., dim=0) divides by a norm over the batch: samples are mixed"
    why = (
        "Embeddings (N, D) should each have length 1: dim=1. Reported for two axes if the first "
        "is as long as the model's batch. Not reported for weights or for products of columns "
        "with columns (Barlow Twins)."
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
    fixed = edit(broken, {
        "z = F.normalize(net(x), dim=0)  # <-": "z = F.normalize(net(x), dim=1)",
    })
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
# Barlow twins: features are compared over the samples.
net = nn.Linear(8, 4)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    a, b = net(x + 0.1 * torch.randn_like(x)), net(x + 0.1 * torch.randn_like(x))
    alike = F.normalize(a, dim=0).T @ F.normalize(b, dim=0)
    loss = ((alike - torch.eye(4)) ** 2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.batches: set[int] = set()
        self.pending: dict[Spot | None, tuple[int, ...]] = {}
        self.output: Any = lambda: None  # the latest output for a batch, weakly

    def on_call(self, call: ModuleCall) -> None:
        if call.recorded:
            shapes = [tensor._array.shape for tensor in call.tensors]
            self.batches.update(shape[0] for shape in shapes if len(shape) > 1 and shape[0] > 1)
            output = call.output
            if isinstance(output,
                          Tensor) and output._array.shape[:1] in [shape_[:1] for shape_ in shapes]:
                self.output = weakref.ref(output)

    def on_backward(self, backward: Backward) -> None:
        self.batches.clear()
        compared = _find_compared_columns(backward.graph) if self.pending else set()
        for spot, shape in self.pending.items():
            if spot not in compared:
                self.report("F.normalize divides by a norm over the samples of the batch", spot,
                            shape=str(shape), dim=0)
        self.pending.clear()

    on_gradient = on_backward

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if not args or not isinstance(args[0], Tensor):
            return
        shape = args[0]._array.shape
        if name == "layer_norm":
            sizes = tuple(args[1] if len(args) > 1 else kwargs.get("normalized_shape", ()))
            if sizes == shape and len(shape) > 1 and shape[0] in self.batches \
                    and args[0]._node is not None:
                self.report("layer_norm computes mean and variance over all samples of the batch",
                            spot, normalized_shape=str(sizes))
            return
        if name != "normalize":
            return
        dim = args[2] if len(args) > 2 else kwargs.get("dim", 1)
        if dim == 0 and len(shape) == 2 and args[0]._node is not None and (
            args[0] is self.output()
            or (self._is_of_batches(args[0]) and shape[1] not in self.batches)
        ):
            self.pending[spot] = shape

    def _is_of_batches(self, tensor: Tensor) -> bool:
        """Whether rows are those of a batch or of several concatenated batches."""
        rows, node = len(tensor._array), find_producer(tensor)
        is_concatenated = node is not None and get_operator_name(node) in ("cat", "concat", "stack")
        return rows in self.batches or (
            is_concatenated and any(rows % batch == 0 for batch in self.batches))


def _find_compared_columns(graph: Graph) -> set[Spot | None]:
    """Return the lines of the operands of products that sum over samples: the first operand is
    transposed."""
    result: set[Spot | None] = set()
    for node in graph.nodes:
        first_operand: Any = get_node(node.edges[0]) if get_operator_name(node) in ("matmul",
                                                                                    "mm") else None
        if hasattr(first_operand,
                   "edges") and get_operator_name(first_operand) in ("t", "transpose", "permute"):
            sides = [get_node(edge) for edge in (first_operand.edges[0], *node.edges[1:])]
            result.update(find_spot(side) for side in sides if hasattr(side, "edges"))
    return result
