"""Attention whose weights sum to 1 along the wrong axis."""

from __future__ import annotations

from typing import Any

from ....nn.parameter import Parameter
from ...events import Backward
from ...finding import Level
from ...graph import RESHAPES, find_spot, get_array, get_node, get_operator_name, get_saved
from ...programs import edit
from ..rule import Rule

# Operators between the scores and the softmax: scaling, masks, activations.
_PASSED_THROUGH = RESHAPES | {"_div", "mul", "_masked_fill", "_where", "_leaky_relu", "tanh",
                              "_sub", "neg", "_add"}


class AttentionAxis(Rule):
    """Looks at products of a softmax: the axis that is summed over is the one to normalize."""

    id = "attention-over-the-queries"
    level = Level.LIKELY
    needs = ("on_backward",)
    title = "attention weights are normalized over the queries: they do not sum to 1 over the keys"
    why = (
        "weights @ values sums over the last axis of weights, the keys, so softmax(dim=-1) makes "
        "it a mean. Reported when a softmax over another axis feeds directly into such a product "
        "and its scores are products or sums of two activations. Not reported if the weights are "
        "normalized again (slot attention) or for scores that a layer computes (clusters, "
        "experts)."
    )
    fix = "softmax(scores, dim=-1)"
    broken = """
q, k, v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
optimizer = optim.Adam(nn.ModuleList([q, k, v]).parameters())
sequences = torch.randn(64, 5, 8)
for _ in range(3):
    scores = q(sequences) @ k(sequences).transpose(1, 2) / 8**0.5
    weights = F.softmax(scores, dim=1)  # <-
    loss = F.cross_entropy((weights @ v(sequences)).mean(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "weights = F.softmax(scores, dim=1)  # <-": "weights = F.softmax(scores, dim=-1)",
    })
    healthy = ("""
# Slots compete for the keys, and are normalized over the keys afterwards.
slots, k, v = nn.Parameter(torch.randn(64, 4, 8)), nn.Linear(8, 8), nn.Linear(8, 3)
optimizer = optim.Adam([slots, *k.parameters(), *v.parameters()])
sequences = torch.randn(64, 5, 8)
for _ in range(3):
    weights = F.softmax(slots @ k(sequences).transpose(1, 2), dim=1)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    loss = F.cross_entropy((weights @ v(sequences)).mean(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Nodes are assigned to clusters, whose contents are added up.
assign, v = nn.Linear(8, 4), nn.Linear(8, 3)
optimizer = optim.Adam([*assign.parameters(), *v.parameters()])
sequences = torch.randn(64, 5, 8)
for _ in range(3):
    clusters = F.softmax(assign(sequences).transpose(1, 2), dim=1)
    loss = F.cross_entropy((clusters @ v(sequences)).mean(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched:
            return
        for node in backward.graph.nodes:
            if get_operator_name(node) not in ("matmul", "mm", "bmm") or len(node.edges) != 2:
                continue
            weights = get_node(node.edges[0])
            if not hasattr(weights, "edges") or get_operator_name(weights) != "softmax":
                continue
            output, dim = get_array(get_saved(weights, "y")), get_saved(weights, "dim")
            if output is None or not isinstance(dim, int) or output.ndim < 2 \
                    or dim % output.ndim != output.ndim - 2:
                continue
            if output.shape[-1] > 1 and output.shape[-2] > 1 and _compares_pairs(weights):
                sums = output.sum(-1)
                self.report("the weights of this product are normalised over the axis that is not "
                            "summed over", find_spot(weights), find_spot(node), dim=dim,
                            **{"sums over the keys": [float(sums.min()), float(sums.max())]})

    on_gradient = on_backward


def _compares_pairs(node: Any) -> bool:
    """Whether scores come from products or sums of two activations."""
    node = get_node(node.edges[0])
    while hasattr(node, "edges") and node.edges:
        children = [get_node(edge) for edge in node.edges if edge is not None]
        name = get_operator_name(node)
        has_two_activations = len(children) == 2 and all(
            hasattr(child, "edges") and not isinstance(child, Parameter) for child in children
        )
        if name in ("matmul", "mm", "bmm"):
            return has_two_activations
        if name == "_add" and has_two_activations:
            return True
        if name not in _PASSED_THROUGH or not children:
            return False
        node = children[0]
    return False
