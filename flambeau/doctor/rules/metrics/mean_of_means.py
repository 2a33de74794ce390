"""Means of batches that are added up and divided by the number of samples."""

from __future__ import annotations

import ast
from typing import Any

from ...events import Backward, LossCall
from ...finding import Level, Place
from ...source import tree_of
from ..rule import Rule
from .keeps_the_worst import enclosing_function


class MeanOfMeans(Rule):
    """Reads how the program reports its losses."""

    id = "batch-means-divided-by-samples"
    level = Level.LIKELY
    needs = ("on_backward", "on_loss")
    title = "sum of the batches' mean losses / number of samples: too small by the batch size"
    why = (
        "A loss is a mean over its batch already: divide the sum by the number of batches, or "
        "multiply each by its batch's length first. Told where a name collects `loss.item()` "
        "and is divided by len(loader.dataset), in a program all of whose losses are means. "
        "Silent for sums, for weighted terms, and for batches of one."
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
        self.files: set[str] = set()
        self.means, self.others = 0, 0

    def on_loss(self, call: LossCall) -> None:
        mean = call.argument("reduction", "mean") == "mean" and call.values.ndim \
            and len(call.values) > 1
        self.means += bool(mean)
        self.others += not mean

    def on_backward(self, backward: Backward) -> None:
        if backward.spot is None or backward.spot[0].co_filename in self.files:
            return
        file = backward.spot[0].co_filename
        self.files.add(file)
        tree = tree_of(file)
        if tree is not None:
            function = enclosing_function(tree, backward.spot[0].co_firstlineno)
            self.places |= {(file, line): text for line, text in _divisions(function)}

    on_gradient = on_backward

    def finish(self) -> None:
        if self.means and not self.others:
            for (file, line), text in self.places.items():
                self.report(f"`{text}` divides means over batches by the number of samples",
                            Place(file, line), losses=self.means)


def _divisions(function: ast.AST) -> list[tuple[int, str]]:
    """Divisions by len(... .dataset) of names that collect plain `.item()`s."""
    collected: dict[str, bool] = {}  # whether all that is added is plain
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            name = ast.unparse(node.target)
            collected[name] = collected.get(name, True) and _is_item(node.value)
    result = []
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            name, divisor = ast.unparse(node.left), ast.unparse(node.right)
            if collected.get(name) and divisor.startswith("len(") \
                    and divisor.endswith(".dataset)"):
                result.append((node.lineno, ast.unparse(node)))
    return result


def _is_item(value: ast.AST) -> bool:
    """`loss.item()` and nothing else, of a name that says it is a loss."""
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
            and value.func.attr == "item" and not value.args):
        return False
    return "loss" in ast.unparse(value.func.value).lower()
