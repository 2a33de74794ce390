"""The first operator that gave nan or infinity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...events import Backward, Update
from ...finding import Level
from ...graph import (
    Graph, find_module, find_spot, get_node, get_operator_name, get_saved, iterate_saved_arrays,
)
from ...places import Spot
from ...programs import edit
from ..rule import Rule

# For each operator, which elements of an input lie outside its domain.
_OUTSIDE_DOMAIN = {
    "log": lambda a: a <= 0, "log2": lambda a: a <= 0, "log10": lambda a: a <= 0,
    "log1p": lambda a: a <= -1, "sqrt": lambda a: a < 0, "rsqrt": lambda a: a <= 0,
    "acos": lambda a: np.abs(a) > 1, "asin": lambda a: np.abs(a) > 1,
    "reciprocal": lambda a: a == 0, "logit": lambda a: (a <= 0) | (a >= 1),
}

# Operators with an infinite derivative somewhere: where the output is 0, or the input is 0 or 1.
_STEEP_AT_OUTPUT = frozenset(("sqrt", "norm", "linalg_norm", "linalg_vector_norm", "std"))
_STEEP = _STEEP_AT_OUTPUT | {"_pow_number", "pow", "acos", "asin", "log"}
_MAX_GRAPHS = 32  # graphs whose nodes' lines are noted
_MAX_CHECKED_PASSES = 64  # backward passes after which gradients are no longer searched for nan


def _has_nonfinite(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and not bool(np.isfinite(array).all())


def find_culprit(graph: Graph) -> tuple[Any, str, dict[str, Any]] | None:
    """Return the oldest node whose operator left its domain, with a description and evidence."""
    for node in graph.nodes:
        name = get_operator_name(node)
        arrays = dict(iterate_saved_arrays(node))
        source = arrays.get("input")
        if name in _OUTSIDE_DOMAIN and source is not None and not _has_nonfinite(source):
            is_outside = _OUTSIDE_DOMAIN[name](source)
            if is_outside.any():
                return node, f"{name}() of numbers it is not defined for", {
                    "input": [float(source.min()), float(source.max())],
                    "outside": int(is_outside.sum())}
        if name in ("_div", "div"):
            divisor = arrays.get("other")
            if divisor is not None and not _has_nonfinite(divisor) and bool((divisor == 0).any()):
                return node, "a division by zero", {"zeros": int((divisor == 0).sum())}
        output = arrays.get("y")
        if name in ("softmax", "log_softmax", "exp", "_attention") and output is not None \
                and _has_nonfinite(output) \
                and not any(_has_nonfinite(a) for label, a in arrays.items() if label != "y"):
            count = int((~np.isfinite(output)).sum())
            return node, f"{name}() gave numbers that are not finite", {"numbers": count}
        weight = _find_nonfinite_leaf(node)
        if weight is not None:
            return node, "a parameter or an input is not finite", {"shape": str(weight.shape)}
    return None


def _find_nonfinite_leaf(node: Any) -> Tensor | None:
    for edge in node.edges:
        source = get_node(edge)
        if isinstance(source, Tensor) and _has_nonfinite(source._array):
            return source
    value = get_saved(node, "input")
    if isinstance(value, Tensor) and value._node is None and not value.requires_grad \
            and bool(np.isnan(value._array).any() if value._array.dtype.kind == "f" else False):
        return value
    return None


def find_steep_node(graph: Graph) -> tuple[Any, str] | None:
    """Return the oldest node with an infinite derivative, which backward multiplies by zero, and
    a description."""
    for node in graph.nodes:
        name = get_operator_name(node)
        if name not in _STEEP:
            continue
        arrays = dict(iterate_saved_arrays(node))
        array, steep_at = arrays.get("y" if name in _STEEP_AT_OUTPUT else "input"), 0.0
        exponent = get_saved(node, "exponent")
        if array is None or (exponent is not None and not 0 < exponent < 1):
            continue
        if name in ("acos", "asin"):
            array, steep_at = np.abs(array), 1.0
        if bool((array == steep_at).any()):
            return node, f"the slope of {name.strip('_')}() is infinite at {steep_at:g}"
    return None


class FirstNan(Rule):
    """When a loss, or a gradient, is not finite, looks for the first operator to blame."""

    id = "not-finite"
    level = Level.CERTAIN
    needs = ("on_backward",)
    title = "the loss or a gradient is nan or infinite"
    why = (
        "Starting at the oldest node of the graph, the first operator whose input lies outside "
        "its domain is named, with its line. A gradient that is nan although the loss is finite "
        "comes from an operator with an infinite slope (sqrt at 0, a where() around a division). "
        "Not reported for steps that a GradScaler skips or for -inf in masks."
    )
    fix = "keep the operator's input within its domain: clamp(min=1e-8), log1p, log_softmax"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = -torch.log(net(x)).mean()  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = -torch.log(net(x)).mean()  # <-": "loss = -F.logsigmoid(net(x)).mean()",
    })
    healthy = ("""
# Scores that are masked with -inf before a softmax.
q = nn.Linear(8, 8)
optimizer = optim.SGD(q.parameters(), lr=0.1)
mask = torch.ones(64, 64).tril() == 0
for _ in range(3):
    scores = (q(x) @ x.T).masked_fill(mask, float("-inf"))
    loss = (F.softmax(scores, dim=1) @ x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# The scaler finds infinite gradients, skips the step and lowers its scale.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
for _ in range(3):
    optimizer.zero_grad()
    scaler.scale(F.mse_loss(net(x), t) * 100).backward()
    scaler.step(optimizer)
    scaler.update()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.scaled = False
        self.places: dict[tuple[str, ...], list[tuple[Spot | None, Any]]] = {}
        self.losses: list[float] = []
        self.told = False
        self.last: Any = None
        self.steep: tuple[Any, str] | None = None  # the oldest node with an infinite slope

    def on_unscale(self, scaler: Any, optimizer: Any, spot: Spot | None) -> None:
        self.scaled = True

    def after_step(self, update: Update) -> None:
        self.last = update.optimizer

    def on_backward(self, backward: Backward) -> None:
        value = backward.value
        if self.told or value is None or self.scaled:
            return
        if math.isfinite(value):
            self.losses = [*self.losses[-3:], value]
            self.steep = find_steep_node(backward.graph) if backward.watched else None
            if backward.watched and len(self.places) < _MAX_GRAPHS:
                graph = backward.graph
                self.places.setdefault(
                    graph.signature(), [(find_spot(n), find_module(n)) for n in graph.nodes]
                )
            return
        self._tell(f"the loss is {value}", backward)

    on_gradient = on_backward

    def after_backward(self, backward: Backward) -> None:
        if self.told or self.scaled or not backward.watched \
                or self.session.clock.passes > _MAX_CHECKED_PASSES:
            return
        for leaf in backward.graph.leaves.values():
            grad = leaf._grad
            if grad is not None and bool(np.isnan(grad._array).any()):
                self._tell("the loss is finite, but a gradient is nan", backward, slopes=True)
                return

    def _tell(self, message: str, backward: Backward, slopes: bool = False) -> None:
        self.told = True
        graph = backward.graph
        recorded_spots = self.places.get(graph.signature(), [])
        spots = {id(n): entry for n, entry in zip(graph.nodes, recorded_spots, strict=False)}
        result = find_culprit(graph)
        if slopes and self.steep is not None:
            result = *self.steep, {}
        evidence: dict[str, Any] = {"loss before": self.losses} if self.losses else {}
        if result is None:
            rate = self.session.optimizers.get(self.last) if self.last is not None else None
            if _grows(self.losses):
                self.report(f"{message} after growing in every step", rate, backward.spot,
                            fix="a smaller learning rate, or scaled inputs and targets",
                            **evidence)
            else:
                self.report(message, backward.spot, rate, **evidence)
            return
        node, description, details = result
        spot = find_spot(node) or spots.get(id(node), (None, None))[0]
        places = self.origin(node) if find_spot(node) is not None else [spot]
        self.report(f"{message}: {description}", *places, backward.spot, **{**details, **evidence})


def _grows(losses: list[float]) -> bool:
    """Whether a loss grew tenfold and more in the last steps."""
    return len(losses) > 2 and all(
        following > 10 * earlier > 0
        for earlier, following in zip(losses, losses[1:], strict=False))
