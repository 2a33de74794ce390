"""A triplet loss that pulls the negatives near and pushes the positives away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from ...events import Backward, LossCall
from ...finding import Level
from ...graph import RESHAPES, find_spot, get_node, get_operator_name
from ...places import Spot, place_of
from ...programs import edit
from ...source import find_statements
from ..rule import Rule
from .term_of_wrong_sign import find_signed_terms

_MAX_TERMS = 32  # of a hinge that are read
_MAX_DISTANCE_OPERATORS = 8  # from a norm down to the difference
_HINGES = ("relu", "relu_only", "_clamp", "softplus", "maximum")
_POWERS = ("_pow_number", "square", "abs", "_vector_norm")
_WITHIN = RESHAPES | {"sum", "mean", "sqrt", "mul", "_clamp", "_add", *_POWERS}
_POSITIVE_WORDS = frozenset(
    ("pos", "positive", "positives", "p", "ap", "same", "similar", "matching"))
_NEGATIVE_WORDS = frozenset(("neg", "negative", "negatives", "n", "an", "different", "dissimilar"))


class TripletSwapped(Rule):
    """Looks below hinges for the difference of two distances, and reads what the program calls
    their ends."""

    id = "triplet-swapped"
    level = Level.LIKELY
    needs = ("on_backward",)
    title = "positive and negative of a triplet loss are swapped: similar samples are pushed apart"
    why = (
        "The hinge is on d(anchor, positive) - d(anchor, negative) + margin. Reported when the "
        "minimized distance is named like the negative's and the other like the positive's (pos, "
        "ap, neg, an and the like), and for triplet_margin_loss if its arguments are named so. "
        "Not reported for similarities, which have the opposite sign."
    )
    fix = "relu(d_ap - d_an + margin); triplet_margin_loss(anchor, positive, negative)"
    broken = """
net = nn.Linear(8, 4)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    anchor, pos, neg = net(x), net(x + 0.1 * torch.randn(64, 8)), net(x.flip(0))
    d_pos, d_neg = (anchor - pos).pow(2).sum(1), (anchor - neg).pow(2).sum(1)
    loss = F.relu(d_neg - d_pos + 0.5).mean()  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = F.relu(d_neg - d_pos + 0.5).mean()  # <-":
            "loss = F.relu(d_pos - d_neg + 0.5).mean()",
    })
    healthy = ("""
# Similarities, which are to be large for what is alike.
net = nn.Linear(8, 4)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    anchor, pos, neg = net(x), net(x + 0.1 * torch.randn(64, 8)), net(x.flip(0))
    near, far = F.cosine_similarity(anchor, pos), F.cosine_similarity(anchor, neg)
    loss = F.relu(F.cosine_similarity(anchor, neg) - F.cosine_similarity(anchor, pos) + 0.5).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# An adversary that makes the embedding worse on purpose, under names of its own.
net, noise = nn.Linear(8, 4), torch.zeros(64, 8, requires_grad=True)
optimizer = optim.SGD([noise], lr=0.01)
for _ in range(3):
    anchor, left, right = net(x), net(x + noise), net(x.flip(0))
    d_left, d_right = (anchor - left).pow(2).sum(1), (anchor - right).pow(2).sum(1)
    loss = F.relu(d_right - d_left + 0.5).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def on_loss(self, call: LossCall) -> None:
        if not call.name.startswith("triplet_margin") or not call.recorded:
            return
        for node in _iterate_nodes(call.spot):
            if isinstance(node, ast.Call) and len(node.args) >= 3 \
                    and _is_swapped(node.args[2], node.args[1]):
                self.report("the negative is passed as the positive", call.spot)
                return

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched:
            return
        for node in backward.graph.nodes:
            if get_operator_name(node) not in _HINGES or not node.edges or node.edges[0] is None:
                continue
            terms = list(find_signed_terms(get_node(node.edges[0]), limit=_MAX_TERMS))
            if sum(_is_distance(term) for term, _ in terms) < 2 or not any(
                get_operator_name(term) == "_sub" for term, _ in terms
            ):
                continue
            spot = next((find_spot(term) for term, _ in terms if get_operator_name(term) == "_sub"),
                        None)
            if any(_is_swapped(minus, plus) for plus, minus in _iterate_differences(spot)):
                self.report("the distance to the negative is minimized and that to the positive "
                            "is maximized",
                            spot, backward.spot)

    on_gradient = on_backward


def _is_distance(node: Any) -> bool:
    """Whether a node is a norm, or a sum of squares, of a difference of two recorded tensors."""
    powers = 0
    for _ in range(_MAX_DISTANCE_OPERATORS):
        name = get_operator_name(node)
        if name in ("_mse_loss", "_l1_loss"):
            return True
        operands = [get_node(edge) for edge in node.edges if edge is not None]
        if name == "_sub":
            return powers > 0 and len(operands) == 2
        if name not in _WITHIN or not operands or not hasattr(operands[0], "edges"):
            return False
        powers += name in _POWERS or (name == "mul" and len(operands) == 2)
        node = operands[0]
    return False


def _iterate_nodes(spot: Spot | None) -> Iterator[ast.AST]:
    """All syntax nodes of the innermost statement at a spot."""
    place = place_of(spot)
    statements = list(find_statements(place.file, place.line))[-1:] if place is not None else []
    for statement in statements:
        yield from ast.walk(statement)


def _iterate_differences(spot: Spot | None) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The (minuend, subtrahend) of each difference in the statement at a spot."""
    for node in _iterate_nodes(spot):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            yield node.left, node.right


def _is_swapped(positive: ast.expr, negative: ast.expr) -> bool:
    """Whether the positive argument is named a negative, and the negative a positive."""
    of_positive = _list_words(positive) - _list_words(negative)
    of_negative = _list_words(negative) - _list_words(positive)
    return bool(of_positive & _POSITIVE_WORDS) and bool(of_negative & _NEGATIVE_WORDS) \
        and not of_positive & _NEGATIVE_WORDS and not of_negative & _POSITIVE_WORDS


def _list_words(node: ast.expr) -> set[str]:
    names = [child.id if isinstance(child, ast.Name) else child.attr
             for child in ast.walk(node) if isinstance(child, (ast.Name, ast.Attribute))]
    return {word for name in names for word in re.split(r"[_\d]+", name.lower()) if word}
