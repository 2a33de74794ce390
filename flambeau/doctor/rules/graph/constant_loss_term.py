"""A part of the loss that is a constant, though it was meant to be trained."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FrameType
from typing import Any

from ....native.foundation.user_frames import find_user_frame
from ....tensor.tensor import Tensor
from ...events import Backward
from ...finding import Level, Place
from ...graph import Graph, find_module
from ...places import Spot, list_callers, place_of
from ...programs import edit
from ...source import find_body, find_statements
from ..rule import Rule

_CUTS = ("data", "detach", "item")
_MAX_TERMS = 64  # that are remembered, of each kind


class ConstantLossTerm(Rule):
    """Reads the statement that adds the loss up, together with the values of its variables: a sum
    of parameters' data, or of gradients without a graph, adds nothing to any gradient."""

    id = "loss-term-without-gradient"
    level = Level.LIKELY
    needs = ("on_backward",)
    title = "a penalty added to the loss has no gradient"
    why = (
        "It changes the printed loss and nothing else. Reported for numbers computed from "
        "parameters through .data, detach() or item(), from torch.autograd.grad without "
        "create_graph=True, or from the model's output through argmax or a threshold, if they "
        "occur in the statement that sums the loss or in a function that it calls. Not reported "
        "for other constants."
    )
    fix = (
        "compute it from the parameters or probabilities themselves; torch.autograd.grad(..., "
        "create_graph=True)"
    )
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(4):
    penalty = sum(p.data.pow(2).sum() for p in net.parameters())  # <-
    loss = F.mse_loss(net(x), t) + 0.01 * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "penalty = sum(p.data.pow(2).sum() for p in net.parameters())  # <-":
            "penalty = sum(p.pow(2).sum() for p in net.parameters())",
    })
    healthy = ("""
# A moving average is taken off, which is a constant and meant to be one.
net, mean = nn.Linear(8, 1), torch.zeros(())
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(4):
    value = F.mse_loss(net(x), t)
    mean = 0.9 * mean + 0.1 * value.detach()
    loss = value - mean
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# First-order meta-learning: gradients without a graph, in weights that have one.
net, x2, t2 = nn.Linear(8, 1, bias=False), torch.randn(64, 8), torch.randn(64, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(4):
    slope, = torch.autograd.grad(F.mse_loss(net(x), t), net.weight)
    fast = net.weight - 0.1 * slope
    loss = F.mse_loss(F.linear(x2, fast), t2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.looked: dict[Any, int] = {}
        # Where gradients end, and the lines that called that: autograd.grad without a graph,
        # argmax and thresholds of what has one.
        self.ends: set[tuple[Spot, ...]] = set()
        self.addends: set[Spot] = set()  # sums of what has a gradient and one number that has none
        # Whether numbers that item() took are of parameters alone, by the line and its callers.
        self.items: dict[tuple[Spot, ...], bool] = {}

    def on_cut(self, method: str, tensor: Any, spot: Spot | None) -> None:
        if method == "argmax()":
            self.on_slope(list_callers(4))
        if method != "item()" or len(self.items) >= _MAX_TERMS:
            return
        spots = list_callers(4)
        if spots not in self.items:
            graph = Graph([tensor._node])
            self.items[spots] = all(id(leaf) in self.session.optimized
                                    for leaf in graph.leaves.values()) and not any(
                None in node.edges or find_module(node) is not None for node in graph.nodes)

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched or backward.spot is None:
            return
        times = self.looked[backward.spot] = self.looked.get(backward.spot, 0) + 1
        frame = find_user_frame(1)
        if times != 2 or frame is None:  # once, when all variables have values
            return
        self._judge_items(backward, frame)
        self._judge_sums(backward, frame)
        body = find_body(frame.f_code.co_filename, frame.f_code)
        if body is None:
            return
        assigned = _collect_assignments(body)
        for name, value in list(frame.f_locals.items()):
            if value is backward.tensor:
                for term in _list_terms(name, assigned, frame):
                    self._judge(term, assigned, frame, backward)

    on_gradient = on_backward

    def on_threshold(self, tensor: Any, bound: float, spot: Spot | None) -> None:
        if tensor._node is not None:
            self.on_slope(list_callers(4))

    def on_slope(self, spots: tuple[Spot, ...]) -> None:
        if len(self.ends) < _MAX_TERMS:
            self.ends.add(spots)

    def on_alias(self, result: Any, spot: Spot | None) -> None:
        self.on_slope(list_callers(4))

    def on_addend(self, constant: Any, spot: Spot | None) -> None:
        if spot is not None and len(self.addends) < _MAX_TERMS:
            self.addends.add(spot)

    def _end_in(self, statements: list[ast.expr] | list[ast.stmt], file: str) -> Place | None:
        """Return the line that dropped a gradient in a function that a statement calls."""
        for spots in self.ends:
            places = [place for place in map(place_of, spots) if place is not None]
            if any(place.file == file and node.lineno <= place.line <= (node.end_lineno or 0)
                   for place in places[1:] for node in statements):
                return places[0]
        return None

    def _judge_sums(self, backward: Backward, frame: FrameType) -> None:
        """Report terms without a gradient that a call within the sum returns."""
        for spot in self.addends:
            place = place_of(spot)
            if place is None or spot[0] is not frame.f_code:
                continue
            sums = list(find_statements(place.file, place.line))[-1:]
            names = [child for child in ast.walk(sums[0]) if isinstance(child, ast.Name)] \
                if sums else []
            if any(_is_constant(frame.f_locals.get(name.id)) for name in names):
                continue  # `_judge` handles it by its assignment
            end = self._end_in(sums, place.file)
            if end is not None:
                self.report("a term of the loss has no gradient", end, place)

    def _judge_items(self, backward: Backward, frame: FrameType) -> None:
        """Report `item()` calls in the statement that sums up the loss."""
        file, body = frame.f_code.co_filename, find_body(frame.f_code.co_filename, frame.f_code)
        names = {name for name, value in list(frame.f_locals.items()) if value is backward.tensor}
        sums = [statement for statement, assigned in _iterate_assignments(body)
                if assigned in names and (isinstance(statement, ast.AugAssign)
                                          or isinstance(statement.value, ast.BinOp))]
        for spots in (spots for spots, is_whole_term in self.items.items() if is_whole_term):
            places = [place for place in map(place_of, spots) if place is not None]
            if any(place.file == file and node.lineno <= place.line <= (node.end_lineno or 0)
                   for place in places for node in sums):
                self.report("a number taken from parameters by item() is part of the loss and has "
                            "no gradient", places[0], backward.spot)

    def _judge(self, name: str, assigned: Any, frame: FrameType, backward: Backward) -> None:
        end = self._end_in(assigned.get(name, []), frame.f_code.co_filename)
        if end is not None:
            self.report(f"'{name}' is part of the loss and has no gradient", end, backward.spot)
            return
        cause = _find_cause(name, assigned, frame, set())
        if cause is not None:
            place = Place(frame.f_code.co_filename, cause.lineno, frame.f_code.co_qualname)
            self.report(f"'{name}' is part of the loss and has no gradient", place, backward.spot)


def _iterate_assignments(body: ast.AST | None) -> Iterator[tuple[ast.Assign | ast.AugAssign, str]]:
    """Yield each assignment with each of the names that it assigns."""
    for node in ast.walk(body) if body is not None else ():
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for child in (child for target in targets for child in ast.walk(target)):
                if isinstance(child, ast.Name):
                    yield node, child.id


def _collect_assignments(body: ast.AST) -> dict[str, list[ast.expr]]:
    """Return the values that each name is assigned."""
    result: dict[str, list[ast.expr]] = {}
    for statement, name in _iterate_assignments(body):
        result.setdefault(name, []).append(statement.value)
    return result


def _list_terms(name: str, assigned: dict[str, list[ast.expr]], frame: FrameType) -> list[str]:
    """Return the names of a loss's terms that have no gradient."""
    terms: list[str] = []
    stack = list(assigned.get(name, ()))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            stack += [node.left, node.right]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            factors = node.left, node.right  # a factor of a trained term is no term itself
            stack += [term for term, factor in (factors, factors[::-1])
                      if _is_number(factor, frame)]
        elif isinstance(node, ast.Name) and node.id != name:
            value = frame.f_locals.get(node.id)
            if _is_constant(value):
                terms.append(node.id)
    return terms


def _is_constant(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.requires_grad and value.dim() == 0


def _is_number(node: ast.expr, frame: FrameType) -> bool:
    if isinstance(node, ast.Name):
        return isinstance(frame.f_locals.get(node.id, frame.f_globals.get(node.id)), (int, float))
    return isinstance(node, (ast.Constant, ast.Attribute))


def _find_cause(
    name: str, assigned: dict[str, list[ast.expr]], frame: FrameType, seen: set[str]
) -> ast.expr | None:
    """Return the expression that dropped a value's gradient; None if it never had one."""
    seen.add(name)
    for value in assigned.get(name, ()):
        nodes = list(ast.walk(value))
        source = ast.unparse(value)
        is_cut = any(isinstance(node, ast.Attribute) and node.attr in _CUTS for node in nodes)
        if is_cut and "parameters()" in source:
            return value
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        for call in calls:
            if ast.unparse(call.func).endswith("autograd.grad") and not any(
                k.arg == "create_graph" for k in call.keywords
            ):
                return value
        if any(_ends(node, frame) for node in nodes):
            return value
        for node in nodes:
            if isinstance(node, ast.Name) and node.id not in seen:
                variable = frame.f_locals.get(node.id)
                if isinstance(variable, Tensor) and not variable.requires_grad:
                    result = _find_cause(node.id, assigned, frame, seen)
                    if result is not None:
                        return result
    return None


def _ends(node: ast.AST, frame: FrameType) -> bool:
    """Whether an expression is argmax or a threshold of a tensor with a gradient."""
    if isinstance(node, ast.Compare):
        operand: ast.AST = node.left
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) \
            and node.func.attr == "argmax":
        operand = node
    else:
        return False
    values = (frame.f_locals.get(part.id) for part in ast.walk(operand)
              if isinstance(part, ast.Name))
    return any(isinstance(value, Tensor) and value.requires_grad and not value.is_leaf
               for value in values)
