"""A count that each batch overwrites, divided by the number of all samples."""

from __future__ import annotations

import ast
from typing import Any

from ...finding import Level
from ...places import Spot, place_of
from ...programs import edit
from ...source import find_body, find_loops
from ..rule import Rule


class CountOverwritten(Rule):
    """Reads the loop around a comparison of predictions with labels, or around an item()."""

    id = "count-overwritten"
    level = Level.LIKELY
    needs = ("on_compare",)
    title = (
        "each batch overwrites the previous batch's count, and the last one is divided by the "
        "total"
    )
    why = (
        "correct = ... stores only the last batch's count. Reported when a loop assigns a number "
        "from its batch to a name that it never reads, and after the loop that name is divided by "
        "a total or a length. Not reported if the loop uses the name."
    )
    fix = "accumulate: correct += ..., with correct = 0 before the loop"
    broken = """
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
F.cross_entropy(net(x), y).backward()
optimizer.step()
correct, total = 0, 0
with torch.no_grad():
    for xb, yb in zip(x.split(16), y.split(16)):
        correct = (net(xb).argmax(1) == yb).sum().item()  # <-
        total += len(yb)
accuracy = correct / total
"""
    fixed = edit(broken, {
        "correct = (net(xb).argmax(1) == yb).sum().item()  # <-":
            "correct += (net(xb).argmax(1) == yb).sum().item()",
    })
    healthy = (edit(broken, {
        # The accuracy of each batch is used at once.
        "correct = (net(xb).argmax(1) == yb).sum().item()  # <-":
            "correct = (net(xb).argmax(1) == yb).sum().item()\nprint(correct / len(yb))",
    }), edit(broken, {
        # The last batch alone is looked at.
        "correct = (net(xb).argmax(1) == yb).sum().item()  # <-":
            "correct = (net(xb).argmax(1) == yb).sum().item()",
        "total += len(yb)": "total = len(yb)",
    }))

    def on_compare(self, a: Any, b: Any, result: Any, spot: Spot | None) -> None:
        self._read(spot)

    def on_cut(self, method: str, tensor: Any, spot: Spot | None) -> None:
        if method == "item()":
            self._read(spot)

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.known: set[Any] = set()  # lines that were read

    def _read(self, spot: Spot | None) -> None:
        place = place_of(spot)
        if spot is None or place is None or (place.file, place.line) in self.known:
            return
        self.known.add((place.file, place.line))
        loops = find_loops(place.file, place.line)
        body = find_body(place.file, spot[0])
        name = _find_overwritten(loops[-1], place.line) if loops and body is not None else None
        if name is None or body is None:
            return
        divisor = _find_divisor(body, loops[-1], name)
        if divisor is not None:
            self.report(f"{name} is the last batch's, and is divided by {divisor}", place)


def _find_overwritten(loop: ast.For | ast.While, line: int) -> str | None:
    """The name that a statement at a line of a loop assigns, which the loop never reads."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and node.lineno <= line <= (node.end_lineno or 0) \
                and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            uses = [n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id == name]
            return name if len(uses) == 1 else None
    return None


def _find_divisor(body: ast.AST, loop: ast.For | ast.While, name: str) -> str | None:
    """Return the divisor of a name after a loop if it counts all samples or batches."""
    added = {ast.unparse(n.target) for n in ast.walk(loop)
             if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add)}
    loop_end = loop.end_lineno or loop.lineno
    for node in ast.walk(body):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) \
                or node.lineno <= loop_end:
            continue
        divisor = ast.unparse(node.right)
        dividend_names = {n.id for n in ast.walk(node.left) if isinstance(n, ast.Name)}
        counts = divisor in added or divisor.startswith("len(") and "load" in divisor.lower()
        if name in dividend_names and counts:
            return divisor
    return None
