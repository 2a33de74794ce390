"""Wide linear layers with nothing in between."""

from __future__ import annotations

from typing import Any

from ...events import Backward
from ...finding import Level
from ...graph import RESHAPES, find_module, find_spot, get_node, get_operator_name
from ...programs import edit
from ..rule import Rule


class LinearAfterLinear(Rule):
    """Looks for linear layers that are fed by a wider result of linear layers."""

    id = "no-activation-between-layers"
    level = Level.LIKELY
    needs = ("on_backward",)
    title = (
        "a linear layer directly follows a wide linear layer: without an activation they are one "
        "layer"
    )
    why = (
        "The product of two linear maps is a linear map. Reported when a Linear feeds directly "
        "into another one of the same Sequential or forward method and is wider than the first "
        "one's input and the second one's output, so that its width is wasted. Not reported for "
        "narrow layers in between (low rank, linear autoencoders), for equal widths, or between "
        "networks."
    )
    fix = "an activation in between: nn.ReLU(), or F.relu(...)"
    broken = """
net = nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 3))  # <-
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "net = nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 3))  # <-":
            "net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))",
    })
    healthy = ("""
# A linear autoencoder: the narrow layer is the point.
net = nn.Sequential(nn.Linear(8, 2), nn.Linear(2, 8))
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = F.mse_loss(net(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Another loss uses the wide layer with an activation.
wide, head, other = nn.Linear(8, 32), nn.Linear(32, 3), nn.Linear(32, 1)
optimizer = optim.SGD(nn.ModuleList([wide, head, other]).parameters(), lr=0.1)
for _ in range(4):
    h = wide(x)
    loss = F.cross_entropy(head(h), y) + F.mse_loss(other(torch.relu(h)), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched:
            return
        graph = backward.graph
        inner: set[int] = set()  # nodes of chains that were judged
        for node in reversed(graph.nodes):
            if id(node) in inner or get_operator_name(node) != "linear":
                continue
            chain = [node]
            while (source := _find_input(chain[-1])) is not None \
                    and len(graph.consumers.get(id(source), ())) == 1 \
                    and self._is_in_one_network(source, chain[-1]):
                chain.append(source)
            inner.update(map(id, chain))
            weights = [_find_weight(link) for link in chain[::-1]]
            if len(chain) == 1 or any(weight is None for weight in weights):
                continue
            widths = [weights[0].shape[1], *(weight.shape[0] for weight in weights)]
            if min(widths[1:-1]) > max(widths[0], widths[-1]):
                self.report("a linear layer directly follows a wide linear layer",
                            *self.origin(chain[-1]), find_spot(chain[-2]), widths=widths)

    on_gradient = on_backward

    def _is_in_one_network(self, source: Any, node: Any) -> bool:
        """Whether two layers follow each other in a Sequential, or in one forward method."""
        first, second = find_module(source), find_module(node)
        for root in list(self.session.roots):
            for owner in root.modules():
                children = list(owner._modules.values())
                if first in children and second in children:
                    if type(owner).__name__ == "Sequential":
                        return children.index(second) == children.index(first) + 1
                    spots = find_spot(source), find_spot(node)
                    return all(spot is not None and spot[0].co_name == "forward" for spot in spots)
        return False


def _find_input(node: Any) -> Any:
    """Return the linear node that computes a linear node's input."""
    if get_operator_name(node) != "linear" or not node.edges or node.edges[0] is None:
        return None
    source = get_node(node.edges[0])
    while hasattr(source, "edges") and get_operator_name(source) in RESHAPES and source.edges:
        source = get_node(source.edges[0])
    return source if hasattr(source, "edges") and get_operator_name(source) == "linear" else None


def _find_weight(node: Any) -> Any:
    """The weight of an nn.Linear that recorded a node."""
    layer = find_module(node)
    weight = getattr(layer, "weight", None)
    return weight._array if type(layer).__name__ == "Linear" and weight is not None else None
