"""Graphs of earlier steps that are kept alive."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any

from ....native.foundation.user_frames import find_user_frame
from ...events import Backward
from ...finding import Level, Place
from ...graph import get_node
from ...places import Spot
from ...programs import edit
from ...source import find_body
from ..rule import Rule

_ALIVE = 10
_MOST = 0.8  # share of the graphs that are still alive


def mentions(value: ast.AST, name: str) -> bool:
    """Whether an expression contains a variable as a tensor, not its item() or float()."""
    if isinstance(value, ast.Call):
        func = value.func
        function_name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        if function_name in ("item", "detach", "float", "tolist", "numpy"):
            return False
    if isinstance(value, ast.Name):
        return value.id == name
    return any(mentions(child, name) for child in ast.iter_child_nodes(value))


def find_keepers(frame: FrameType, name: str) -> Iterator[int]:
    """The lines of a function that put a variable into a sum or a list."""
    body = find_body(frame.f_code.co_filename, frame.f_code)
    for node in ast.walk(body) if body is not None else ():
        value: Any = None
        if isinstance(node, ast.AugAssign):
            value = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) \
                and node.func.attr in ("append", "insert", "extend") and node.args:
            value = node.args[-1]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) \
                and isinstance(node.targets[0], ast.Name):
            value = node.value if mentions(node.value, node.targets[0].id) else None
        if value is not None and mentions(value, name):
            yield value.lineno


class OldGraphs(Rule):
    """Holds weak references to the roots of backward passes and counts those that stay alive."""

    id = "old-graphs-kept"
    level = Level.LIKELY
    needs = ("on_backward",)
    title = "losses of earlier steps keep their graphs: memory grows with every step"
    why = (
        "A loss tensor that is accumulated or appended to a list keeps all nodes of its graph "
        f"alive. Reported when the roots of {_ALIVE} earlier backward passes of the same line are "
        "alive."
    )
    fix = "store the number: loss.item(), or loss.detach()"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
total = 0.0
for _ in range(16):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss  # <-
"""
    fixed = edit(broken, {
        "total += loss  # <-": "total += loss.item()",
    })
    healthy = ("""
# The sum is what goes backward.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(4):
    total = 0.0
    for xb, tb in zip(x.split(4), t.split(4)):
        total += F.mse_loss(net(xb), tb)
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
""", """
# Outputs are kept, without their history.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
history = []
for _ in range(16):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.detach())
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.roots: dict[Spot | None, list[Any]] = {}

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched or backward.tensor is None:
            return
        node = get_node(backward.tensor._node)
        if node is None:
            return
        roots = self.roots.setdefault(backward.spot, [])
        alive = [reference for reference in roots if reference() is not None]
        if len(alive) >= _ALIVE and len(alive) >= _MOST * len(roots):
            self._tell(backward, len(alive))
        roots.append(weakref.ref(node))

    on_gradient = on_backward

    def _tell(self, backward: Backward, alive: int) -> None:
        frame = find_user_frame(2)
        places: list[Any] = []
        if frame is not None:
            file = frame.f_code.co_filename
            names = [n for n, value in list(frame.f_locals.items()) if value is backward.tensor]
            for name in names:
                places += [Place(file, line, frame.f_code.co_qualname, "kept here")
                           for line in find_keepers(frame, name)]
        self.report(f"the graphs of {alive} earlier steps are still in memory", *places,
                    backward.spot, **{"graphs alive": alive})
