"""One layer several times in a container."""

from __future__ import annotations

import ast
from typing import Any

from ...events import ModuleCall
from ...finding import Level
from ...places import place_of
from ...programs import edit
from ...source import find_statements
from ..rule import Rule


def multiplies_a_list(file: str, line: int) -> bool:
    """Whether a statement on a line has `[layer] * n` in it."""
    for statement in find_statements(file, line):
        for node in ast.walk(statement) if not hasattr(statement, "body") else ():
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) \
                    and (isinstance(node.left, (ast.List, ast.Tuple))
                         or isinstance(node.right, (ast.List, ast.Tuple))):
                return True
    return False


class RepeatedLayer(Rule):
    """Looks for a layer that a ModuleList or Sequential has more than once."""

    id = "layer-repeated"
    level = Level.HINT
    needs = ("on_call",)
    title = "[layer] * n is one layer n times: all entries share their weights"
    why = (
        "Likely if the list was multiplied, as in `[nn.Linear(8, 8)] * 3`; a hint if a layer was "
        "added more than once in another way, which is how weights are shared on purpose."
    )
    fix = "[nn.Linear(...) for _ in range(n)]"
    broken = """
net = nn.Sequential(nn.Linear(8, 8), *[nn.Linear(8, 8)] * 3, nn.Linear(8, 3))  # <-
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(2):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "net = nn.Sequential(nn.Linear(8, 8), *[nn.Linear(8, 8)] * 3, nn.Linear(8, 3))  # <-":
            "net = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)], nn.Linear(8, 3))",
    })
    healthy = ("""
# A block that is applied three times, on purpose.
block = nn.Linear(8, 8)
net = nn.Sequential(block, block, block, nn.Linear(8, 3))
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(2):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""", """
# An activation has nothing to share.
relu = nn.ReLU()
net = nn.Sequential(nn.Linear(8, 8), relu, nn.Linear(8, 8), relu, nn.Linear(8, 3))
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(2):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.looked: set[int] = set()

    def on_call(self, call: ModuleCall) -> None:
        if id(call.module) in self.looked:
            return
        self.looked.add(id(call.module))
        for container in call.module.modules():
            children = list(container._modules.values())
            if type(container).__name__ not in ("ModuleList", "Sequential") or not children:
                continue
            for child in {id(c): c for c in children if c is not None}.values():
                times = sum(c is child for c in children)
                if times < 2 or not any(True for _ in child.parameters()):
                    continue
                spot = self.session.built_at.get(container)
                place = place_of(spot)
                multiplied = place is not None and multiplies_a_list(place.file, place.line)
                self.report(
                    f"{type(child).__name__} is {times} times in {type(container).__name__}: its "
                    "weights are shared", place, self.session.built_at.get(child), times=times,
                    level=Level.LIKELY if multiplied else Level.HINT,
                )
