"""Methods that are named and not called, and results that are thrown away."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from ...events import Backward, Update
from ...finding import Level, Place
from ...places import Spot
from ...programs import edit
from ...source import tree_of
from ..rule import Rule

_METHODS = frozenset((
    "zero_grad", "step", "backward", "eval", "train", "detach_", "zero_", "update", "close",
))
# Functions and methods of tensors that change nothing but give a result.
_PURE = frozenset((
    "squeeze", "unsqueeze", "permute", "clamp", "masked_fill", "detach", "relu", "sigmoid", "tanh",
    "softmax", "log_softmax", "normalize", "leaky_relu", "gelu",
))
# Those of them that only tensors have.
_OF_TENSORS = frozenset((
    "squeeze", "unsqueeze", "permute", "clamp", "masked_fill", "detach", "reshape", "view",
    "transpose", "flatten", "mul", "div", "masked_select",
))
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_SPACES = frozenset(("torch", "F", "nn", "functional", "flambeau"))


def idle_statements(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Statements without effect: line, what was written, what is lacking."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Expr):
            continue
        value = node.value
        if isinstance(value, ast.Attribute) and value.attr in _METHODS:
            yield node.lineno, ast.unparse(value), "call"
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) \
                and value.func.attr in _PURE | _OF_TENSORS \
                and not any(k.arg in ("inplace", "out") for k in value.keywords):
            owner = value.func.value
            space = isinstance(owner, ast.Name) and owner.id in _SPACES
            if space or (isinstance(owner, ast.Name) and owner.id != "self"
                         and value.func.attr in _OF_TENSORS):
                yield node.lineno, ast.unparse(value), "result"
        elif isinstance(value, ast.BinOp) and isinstance(value.op, _ARITHMETIC) \
                and "loss" in ast.unparse(value).lower():
            yield node.lineno, ast.unparse(value), "result"


class MethodNotCalled(Rule):
    """Reads the source of the files that train."""

    id = "statement-without-effect"
    level = Level.CERTAIN
    needs = ("on_backward",)
    title = "a method is named but not called, or the result of a function is thrown away"
    why = (
        "`optimizer.zero_grad` without parentheses does nothing, x.unsqueeze(1) gives a new tensor "
        "and leaves x as it is, and `loss + penalty` adds to nothing. Certain for methods that are "
        "not called, likely for results that nobody uses."
    )
    fix = "optimizer.zero_grad(); x = x.unsqueeze(1)"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(2):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad  # <-
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "optimizer.zero_grad  # <-": "optimizer.zero_grad()",
    })
    healthy = ("""
# In place, as the underscore says.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(2):
    h = net(x)
    h = h.unsqueeze(1)
    h.squeeze_(1)
    optimizer.zero_grad()
    F.mse_loss(h, t).backward()
    optimizer.step()
""", """
# The method itself is handed on.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
update = optimizer.step
for _ in range(2):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    update()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.files: set[str] = set()

    def _look(self, spot: Spot | None) -> None:
        if spot is None or spot[0].co_filename in self.files:
            return
        file = spot[0].co_filename
        self.files.add(file)
        tree = tree_of(file)
        for line, written, lacking in idle_statements(tree) if tree is not None else ():
            if lacking == "call":
                self.report(f"`{written}` is named, not called: it does nothing",
                            Place(file, line), fix=f"{written}()")
            else:
                self.report(f"the result of `{written}` is thrown away", Place(file, line),
                            level=Level.LIKELY, fix=f"... = {written}")

    def on_backward(self, backward: Backward) -> None:
        self._look(backward.spot)

    on_gradient = on_backward

    def on_module_made(self, module: Any, spot: Spot | None) -> None:
        code = getattr(type(module).forward, "__code__", None)
        if code is not None and not type(module).__module__.startswith("flambeau."):
            self._look((code, 0))

    def after_step(self, update: Update) -> None:
        self._look(update.spot)
