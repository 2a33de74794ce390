"""Means of batches that are added up and divided by the number of samples."""

from __future__ import annotations

import ast
import re
from typing import Any

from ...events import Backward, LossCall
from ...finding import Level, Place
from ...places import Spot
from ...source import parse_file
from ..rule import Rule
from .keeps_the_worst import enclosing_function

_LOSS = re.compile(r"loss|criterion|\b(mse|bce|mae|crit|cross_entropy)\b")
_OF_A_BATCH = re.compile(r"len\(\w+\)|\w+\.(size\(0\)|shape\[0\])")


class MeanOfMeans(Rule):
    """Reads how the program reports its losses."""

    id = "batch-means-divided-by-samples"
    level = Level.LIKELY
    needs = ("on_backward", "on_loss")
    title = (
        "the sum of mean batch losses is divided by the number of samples: too small by the batch "
        "size"
    )
    why = (
        "Each loss is already a mean over its batch: divide the sum by the number of batches, or "
        "first multiply each loss by its batch size. Reported when a name accumulates "
        "`loss.item()` and is divided by len(loader.dataset) or by a sample count, in a program "
        "whose losses are all means. Not reported for sums, weighted terms or batches of one."
    )
    fix = "total += loss.item() * len(xb), or total / len(loader)"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x, t), batch_size=16)
total = 0.0
for xb, tb in loader:
    loss = F.mse_loss(net(xb), tb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
average = total / len(loader.dataset)  # <-
"""
    fixed = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x, t), batch_size=16)
total = 0.0
for xb, tb in loader:
    loss = F.mse_loss(net(xb), tb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item() * len(xb)
average = total / len(loader.dataset)
"""
    healthy = ("""
# Means over the number of batches.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x, t), batch_size=16)
total = 0.0
for xb, tb in loader:
    loss = F.mse_loss(net(xb), tb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
average = total / len(loader)
""", """
# Sums over the samples.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.001)
loader = DataLoader(TensorDataset(x, t), batch_size=16)
total = 0.0
for xb, tb in loader:
    loss = F.mse_loss(net(xb), tb, reduction="sum")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
average = total / len(loader.dataset)
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.places: dict[tuple[str, int], str] = {}
        self.looked: set[tuple[str, int]] = set()  # functions, by file and first line
        self.means, self.others = 0, 0

    def on_loss(self, call: LossCall) -> None:
        mean = call.argument("reduction", "mean") == "mean" and call.values.ndim \
            and len(call.values) > 1
        self.means += bool(mean)
        self.others += not mean
        self._look(call.spot)

    def on_backward(self, backward: Backward) -> None:
        self._look(backward.spot)

    on_gradient = on_backward

    def _look(self, spot: Spot | None) -> None:
        if spot is None or (key := (spot[0].co_filename, spot[0].co_firstlineno)) in self.looked:
            return
        self.looked.add(key)
        tree = parse_file(key[0])
        if tree is not None:
            function = enclosing_function(tree, key[1])
            self.places |= {(key[0], line): division
                            for line, division in _list_divisions(function)}

    def finish(self) -> None:
        if self.means and not self.others:
            for (file, line), division in self.places.items():
                self.report(f"`{division}` divides means over batches by the number of samples",
                            Place(file, line), losses=self.means)


def _list_divisions(function: ast.AST) -> list[tuple[int, str]]:
    """Divisions by a number of samples of names that collect plain `.item()`s."""
    collected: dict[str, bool] = {}  # whether all that is added is plain
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            name = ast.unparse(node.target)
            collected[name] = collected.get(name, True) and _is_item(node.value)
    counts = _find_sample_counts(function)
    result = []
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            sides = node.left, node.right
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
            sides = node.target, node.value
        else:
            continue
        name, divisor = (ast.unparse(side) for side in sides)
        if collected.get(name) and (divisor in counts or _is_length(divisor)):
            result.append((node.lineno, ast.unparse(node)))
    return result


def _is_length(expression: str) -> bool:
    return expression.startswith("len(") and expression.endswith(".dataset)")


def _find_sample_counts(function: ast.AST) -> set[str]:
    """Names that hold len(... .dataset), or to which each batch's length is added."""
    added: dict[str, list[str]] = {}
    lengths: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            added.setdefault(ast.unparse(node.target), []).append(ast.unparse(node.value))
        elif isinstance(node, ast.Assign) and _is_length(ast.unparse(node.value)):
            lengths.update(ast.unparse(target) for target in node.targets)
    return lengths | {name for name, values in added.items()
                      if all(_OF_A_BATCH.fullmatch(value) for value in values)}


def _is_item(value: ast.AST) -> bool:
    """`loss.item()` and nothing else, of a name that says it is a loss."""
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
            and value.func.attr == "item" and not value.args):
        return False
    return _LOSS.search(ast.unparse(value.func.value).lower()) is not None
