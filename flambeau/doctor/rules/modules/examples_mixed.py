"""A model in which the examples of a batch reach one another's outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....autograd import engine
from ....autograd.node import Node
from ....tensor.tensor import Tensor
from ...events import Backward, ModuleCall
from ...finding import Level
from ...graph import RESHAPES, Graph, find_spot, get_node, get_operator_name
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_PROBES = 2
_MIN_EXAMPLES = 4  # examples
_MEANT = ("norm", "batch", "memory", "mix", "shuffle")  # in names of modules that mix on purpose
_STATISTICS = ("batch_norm", "std", "var", "index")  # and of operators
_MIN_LEAKAGE = 1e-5  # of the greatest slope
_ROUNDING = 1e-6  # of the greatest slope


class ExamplesMixed(Rule):
    """Carries the gradient of one example's output back to the first layer, and looks at the rows
    of the other examples there."""

    id = "examples-mixed"
    level = Level.LIKELY
    needs = ("on_call", "on_layer", "on_backward")
    title = (
        "an example's output depends on the other examples in its batch: a reshape mixes them up"
    )
    why = (
        "A view() instead of a permute(), or after one that left the batch on axis 1: the result "
        "depends on which examples share a batch. Reported for a model of one tensor, whose rows "
        "are a shuffled batch, if the gradient of one output reaches other rows through a "
        f"reshape, in {_PROBES} calls, and no other check reported a mistake. A hint if another "
        "operator mixes them, which may be intended; not reported for batch norm, statistics of "
        f"the batch, rows taken by index, or modules with {', '.join(_MEANT[:-1])} or {_MEANT[-1]} "
        "in their name."
    )
    fix = "move the batch back to axis 0 with permute() or transpose() before view() or reshape()"
    broken = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores, self.head = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        h = torch.tanh(self.scores(x))
        return self.head(h.T.reshape(-1, 8))  # <-

net = Net()
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    for rows in torch.randperm(64).split(16):
        loss = F.cross_entropy(net(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    fixed = edit(broken, {
        "return self.head(h.T.reshape(-1, 8))  # <-": "return self.head(h.reshape(-1, 8))",
    })
    healthy = (edit(broken, {
        # A norm of the batch, written by hand.
        "return self.head(h.T.reshape(-1, 8))  # <-": "return self.head(h - h.mean(0))",
    }), edit(broken, {
        # A set, whose elements are seen together: its rows are not shuffled.
        "loss = F.cross_entropy(net(x[rows]), y[rows])": "loss = F.cross_entropy(net(x), y)",
        "return self.head(h.T.reshape(-1, 8))  # <-": "return self.head(h.T.reshape(-1, 8))",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.rows: list[Any] = []  # tensors whose axis 0 is that of examples
        self.first: Any = None  # what the first layer of this call gave
        self.nodes: dict[int, list[tuple[Spot | None, str]]] = {}  # by model: what mixes, and where
        self.separate: set[int] = set()  # models that keep examples apart

    def on_batch(self, iterator: Any, batch: Any, spot: Spot | None) -> None:
        loader = self.session.loaders.get(iterator)
        collate = getattr(getattr(loader, "collate_fn", None), "__name__", "")
        shuffles = type(getattr(loader, "sampler", None)).__name__ == "RandomSampler"
        elements = batch if isinstance(batch, (list, tuple)) else [batch]
        self.rows = [element for element in elements if isinstance(element, Tensor)] \
            if collate == "default_collate" and shuffles else []

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if name == "getitem" and isinstance(args[1], Tensor) and isinstance(args[-1], Tensor):
            index = args[1]._array
            if index.ndim == 1 and index.dtype.kind == "i" and len(index) >= _MIN_EXAMPLES \
                    and np.any(np.diff(index) < 0) and args[-1]._array.shape[:1] == index.shape:
                self.rows = [*self.rows[-3:], args[-1]]

    def on_layer(self, call: ModuleCall) -> None:
        if self.first is None and isinstance(call.output, Tensor) and call.output._node is not None:
            self.first = call.output

    def on_backward(self, backward: Backward) -> None:
        self.first, self.rows = None, []

    on_gradient = on_backward

    def on_call(self, call: ModuleCall) -> None:
        first, self.first = self.first, None
        key = id(call.module)
        mixing_lines = self.nodes.setdefault(key, [])
        output = call.output
        if first is None or key in self.separate or len(mixing_lines) >= _PROBES \
                or not call.recorded or len(call.tensors) != 1 or not isinstance(output, Tensor) \
                or output._node is None or output is first:
            return
        source = call.tensors[0]._array
        examples = len(source) if source.ndim > 1 else 0
        of_batch = any(np.may_share_memory(rows._array, source)
                       and len(rows._array) == examples for rows in self.rows)
        if examples < _MIN_EXAMPLES or not of_batch or output._array.shape[:1] != (examples,) \
                or first._array.shape[:1] != (examples,) or _is_meant(call.module):
            return
        graph = Graph([output._node])
        if any(node.hooks is not None or node.is_custom
               or any(name in get_operator_name(node)
               for name in _STATISTICS) for node in graph.nodes):
            return
        mixes, node = probe(output, first, graph)
        if mixes is False:
            self.separate.add(key)
        elif node is not None:
            mixing_lines.append((find_spot(node) or call.spot, get_operator_name(node)))

    def finish(self) -> None:
        """Tell, where no other check did."""
        if any(finding.level is not Level.HINT for finding in self.session.findings):
            return
        for key, nodes in self.nodes.items():
            if len(nodes) >= _PROBES and key not in self.separate:
                spot, name = nodes[-1]
                self.report("the output of one example depends on the other examples of its batch",
                            spot, level=None if name in RESHAPES else Level.HINT, operator=name,
                            probes=len(nodes))


def _is_meant(model: Any) -> bool:
    return any(name in type(module).__name__.lower() for module in model.modules()
               for name in _MEANT if type(module).__name__ not in ("LayerNorm", "RMSNorm"))


def probe(output: Any, first: Any, graph: Graph) -> tuple[bool | None, Any]:
    """Return whether the middle example's output depends on other rows of `first`, and the node
    that mixes them; None if it depends on no row."""
    examples = len(output._array)
    middle = examples // 2
    cotangent = np.zeros(output._array.shape, output._array.dtype)
    cotangent[middle] = np.random.default_rng(0).uniform(0.5, 1.5, cotangent[middle].shape)
    first_node = get_node(first._node)
    leading = {id(first_node)}
    for node in graph.nodes:  # oldest first
        if any(edge is not None and id(get_node(edge)) in leading for edge in node.edges):
            leading.add(id(node))
    captures = {key: 0 for node in graph.nodes if id(node) in leading
                for key in (id(node), (id(node), 0))}
    slopes = engine.run([(output._node, output.new_tensor(cotangent))], True, False, captures,
                        accumulate=False)
    arrays = {key if key.__class__ is int else key[0]: value._array
              for key, value in slopes.items()}
    slope = arrays.get(id(first_node))
    if slope is None or not np.abs(slope).max() > 0:
        return None, None
    leakage = np.abs(np.delete(slope, middle, axis=0)).max()
    if not leakage > _MIN_LEAKAGE * np.abs(slope).max():
        return False, None
    for node in reversed(graph.nodes):
        output_array = arrays.get(id(node))
        operands = [arrays.get(id(get_node(edge))) for edge in node.edges
                    if isinstance(get_node(edge), Node) and id(get_node(edge)) in leading]
        if output_array is not None and is_apart(output_array, examples) and any(
            array is not None and not is_apart(array, examples) for array in operands
        ):
            return True, node
    return True, None


def is_apart(slope: np.ndarray, examples: int) -> bool:
    """Whether the nonzero slopes lie within one example's share of some axis."""
    used = np.abs(slope) > _ROUNDING * np.abs(slope).max()
    for axis, length in enumerate(used.shape):
        if length % examples == 0:
            is_used = used.any(axis=tuple(i for i in range(used.ndim) if i != axis))
            if is_used.sum() * examples <= length:
                return True
    return False
