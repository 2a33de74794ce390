"""Methods that are named and not called, and results that are thrown away."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from ....native.foundation.user_frames import find_user_frame, is_installed_file
from ...events import Backward, Update
from ...finding import Level, Place
from ...places import Spot
from ...programs import edit
from ...source import parse_file
from ..rule import Rule

_METHODS = frozenset((
    "zero_grad", "step", "backward", "eval", "train", "detach_", "zero_", "update", "close",
))
# Functions and methods of tensors that change nothing but give a result.
_PURE = frozenset((
    "squeeze", "unsqueeze", "permute", "clamp", "masked_fill", "detach", "relu", "sigmoid", "tanh",
    "softmax", "log_softmax", "normalize", "leaky_relu", "gelu",
))
# What changes a parameter's .data or .grad only with an underscore.
_OF_VALUES = frozenset(("sub", "mul", "div", "clip", "lerp", "addcmul", "addcdiv"))
_PARAMETERS = ("parameters", "named_parameters", "buffers", "named_buffers")
# Those of them that only tensors have.
_OF_TENSORS = frozenset((
    "squeeze", "unsqueeze", "permute", "clamp", "masked_fill", "detach", "reshape", "view",
    "transpose", "flatten", "mul", "div", "masked_select",
))
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_SPACES = frozenset(("torch", "F", "nn", "functional", "flambeau"))


def find_idle_statements(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Statements without effect: line, what was written, what is lacking."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            yield from find_rebound_parameters(node)
        if not isinstance(node, ast.Expr):
            continue
        value = node.value
        if isinstance(value, ast.Attribute) and value.attr in _METHODS:
            yield node.lineno, ast.unparse(value), "call"
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) \
                and value.func.attr in _PURE | _OF_TENSORS | _OF_VALUES \
                and not any(k.arg in ("inplace", "out") for k in value.keywords):
            owner = value.func.value
            space = isinstance(owner, ast.Name) and owner.id in _SPACES \
                and value.func.attr not in _OF_VALUES
            values = isinstance(owner, ast.Attribute) and owner.attr in ("data", "grad")
            if values or space or (isinstance(owner, ast.Name) and owner.id != "self"
                         and value.func.attr in _OF_TENSORS):
                yield node.lineno, ast.unparse(value), "result"
        elif isinstance(value, ast.BinOp) and isinstance(value.op, _ARITHMETIC) \
                and "loss" in ast.unparse(value).lower():
            yield node.lineno, ast.unparse(value), "result"


def find_rebound_parameters(loop: ast.For) -> Iterator[tuple[int, str, str]]:
    """Yield assignments to the variable of a loop over parameters that nothing reads: the parameter
    does not change."""
    if not any(isinstance(child, ast.Attribute) and child.attr in _PARAMETERS
               for child in ast.walk(loop.iter)):
        return
    names = {child.id for child in ast.walk(loop.target) if isinstance(child, ast.Name)}
    for statement in loop.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.BinOp):
            continue
        target = statement.targets[0]
        if not isinstance(target, ast.Name) or target.id not in names:
            continue
        later_uses = [child for child in ast.walk(loop) if isinstance(child, ast.Name)
                      and child.id == target.id and child.lineno > (statement.end_lineno or 0)]
        if not later_uses:
            yield statement.lineno, ast.unparse(statement), "place"


class MethodNotCalled(Rule):
    """Reads the source of the files that train."""

    id = "statement-without-effect"
    level = Level.CERTAIN
    needs = ("on_backward",)
    title = "a method is named but not called, or a function's result is discarded"
    why = (
        "`optimizer.zero_grad` without parentheses does nothing, x.unsqueeze(1) returns a new "
        "tensor and leaves x unchanged, and `loss + penalty` adds to nothing. Certain for methods "
        "that are not called and for `p = ...` in a loop over parameters; likely for results that "
        "are not used."
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
        if is_installed_file(file):
            return
        tree = parse_file(file)
        for line, source, problem in find_idle_statements(tree) if tree is not None else ():
            if problem == "call":
                self.report_when_run(f"`{source}` is named, not called: it does nothing",
                                     Place(file, line), find_user_frame(1), fix=f"{source}()")
            elif problem == "place":
                name, _, value = source.partition(" = ")
                self.report_when_run(f"`{source}` gives a name to a new tensor: no parameter "
                                     "changes", Place(file, line), find_user_frame(1),
                                     fix=f"{name}.copy_({value}) under torch.no_grad()")
            else:
                self.report_when_run(f"the result of `{source}` is thrown away",
                                     Place(file, line), find_user_frame(1), level=Level.LIKELY,
                                     fix=f"... = {source}")

    def on_backward(self, backward: Backward) -> None:
        self._look(backward.spot)

    on_gradient = on_backward

    def on_module_constructed(self, module: Any, spot: Spot | None) -> None:
        code = getattr(type(module).forward, "__code__", None)
        if code is not None and not type(module).__module__.startswith("flambeau."):
            self._look((code, 0))

    def after_step(self, update: Update) -> None:
        self._look(update.spot)
