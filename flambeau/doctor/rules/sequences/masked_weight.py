"""Masks of attention that leave weight on what they are to hide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...events import Backward
from ...finding import Level
from ...graph import RESHAPES, Graph, find_spot, get_array, get_node, get_operator_name, get_saved
from ...programs import edit
from ..rule import Rule

_WEIGHT = 1e-3  # on average, that a hidden position has all the same
_PRODUCTS = ("matmul", "mm", "bmm", "mul")


class MaskedWeight(Rule):
    """Reads the weights that a softmax gave to masked positions."""

    id = "masked-positions-get-weight"
    level = Level.LIKELY
    needs = ("on_backward",)
    title = "a mask sets scores to 0, or weights after the softmax: hidden positions still count"
    why = (
        "A score of 0 is a score like any other: exp(0) is 1. Hidden positions need -inf before "
        "the softmax. If weights are zeroed after it, they no longer sum to 1. Reported when "
        "masked_fill, where or a product with zeros and ones directly precedes or follows a "
        "softmax that weights other values, and hidden positions had weight. Not reported if the "
        "weights are divided by their sum, or for rows that are hidden entirely."
    )
    fix = "scores.masked_fill(hidden, float('-inf')) before the softmax"
    broken = """
embedding, head = nn.Embedding(9, 8), nn.Linear(8, 3)
optimizer = optim.Adam([*embedding.parameters(), *head.parameters()])
tokens = torch.randint(0, 9, (64, 6))
for _ in range(3):
    h = embedding(tokens)
    scores = h @ h.transpose(1, 2)
    scores = scores.masked_fill((tokens == 0)[:, None, :], 1e-9)  # <-
    loss = F.cross_entropy(head((F.softmax(scores, dim=-1) @ h).mean(1)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "scores = scores.masked_fill((tokens == 0)[:, None, :], 1e-9)  # <-":
            "scores = scores.masked_fill((tokens == 0)[:, None, :], -1e9)",
    })
    healthy = ("""
# Set to 0 after the softmax, and divided by the sum of the rest.
embedding, head = nn.Embedding(9, 8), nn.Linear(8, 3)
optimizer = optim.Adam([*embedding.parameters(), *head.parameters()])
tokens = torch.randint(0, 9, (64, 6))
for _ in range(3):
    h = embedding(tokens)
    weights = F.softmax(h @ h.transpose(1, 2), dim=-1) * (tokens != 0)[:, None, :].float()
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
    loss = F.cross_entropy(head((weights @ h).mean(1)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Rows of padding are set to 0 as a whole, after attention among the others.
embedding, head = nn.Embedding(9, 8), nn.Linear(8, 3)
optimizer = optim.Adam([*embedding.parameters(), *head.parameters()])
tokens = torch.randint(0, 9, (64, 6))
for _ in range(3):
    h, shown = embedding(tokens), (tokens != 0).float()
    scores = (h @ h.transpose(1, 2)).masked_fill(shown[:, None, :] == 0, float("-inf"))
    weights = F.softmax(scores, dim=-1) * shown[:, :, None]
    loss = F.cross_entropy(head((weights @ h).mean(1)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched:
            return
        graph = backward.graph
        for node in graph.nodes:
            if get_operator_name(node) != "softmax":
                continue
            weights, dim = get_array(get_saved(node, "y")), get_saved(node, "dim")
            if weights is None or weights.ndim < 2 or not isinstance(dim, int):
                continue
            for mask_node, hidden, weighs in _iterate_masks(node, graph, weights):
                hidden_weight = _weigh_hidden(weights, hidden, dim) if weighs else 0.0
                if hidden_weight > _WEIGHT:
                    self.report("positions hidden by a mask get weight from the softmax",
                                find_spot(mask_node), find_spot(node), backward.spot,
                                **{"their mean weight": hidden_weight})

    on_gradient = on_backward


def _iterate_masks(
    node: Any, graph: Graph, weights: np.ndarray
) -> Iterator[tuple[Any, np.ndarray, bool]]:
    """Yield the masks before and after a softmax: the node, the hidden positions, and whether the
    result weighs values."""
    scores = get_node(node.edges[0])
    hidden = _find_hidden(scores) if hasattr(scores, "edges") else None
    if hidden is not None:
        yield scores, hidden, _weighs(node, graph)
    for consumer in graph.consumers.get(id(node), ()):
        hidden = _find_hidden(consumer)
        if hidden is not None and np.broadcast_shapes(hidden.shape, weights.shape) == weights.shape:
            yield consumer, hidden, _weighs(consumer, graph)


def _find_hidden(node: Any) -> np.ndarray | None:
    """Where an operator puts a constant in place of numbers: by a mask, or by zeros and ones."""
    name = get_operator_name(node)
    if name in ("masked_fill", "_masked_fill"):
        return get_array(get_saved(node, "mask"))
    if name == "mul" and sum(edge is not None for edge in node.edges) == 1:
        factor = get_array(get_saved(node, "other" if node.edges[0] is not None else "input"))
        if factor is not None and factor.size > 1 and np.isin(factor, (0, 1)).all():
            return factor == 0
    return None


def _weighs(node: Any, graph: Graph) -> bool:
    """Whether numbers are multiplied with others that are computed, through reshapes."""
    for user in graph.consumers.get(id(node), ()):
        name = get_operator_name(user)
        if name in RESHAPES or name == "dropout":
            if _weighs(user, graph):
                return True
        elif name in _PRODUCTS and None not in user.edges:
            return True
    return False


def _weigh_hidden(weights: np.ndarray, hidden: np.ndarray, dim: int) -> float:
    """The mean weight of hidden positions in rows that are hidden in part."""
    try:
        hidden = np.broadcast_to(hidden, weights.shape)
    except ValueError:
        return 0.0
    partly = hidden & ~hidden.all(dim, keepdims=True)
    return float(weights[partly].mean()) if partly.any() else 0.0
