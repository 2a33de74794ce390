"""Methods that are named and not called, and results that are thrown away."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator
from typing import Any, NamedTuple

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
# Functions and methods that change nothing but give a result: of tensors and of namespaces, only
# of tensors, and those that change a parameter's .data or .grad with an underscore.
_PURE = frozenset((
    "squeeze", "unsqueeze", "permute", "clamp", "masked_fill", "detach", "relu", "sigmoid", "tanh",
    "softmax", "log_softmax", "normalize", "leaky_relu", "gelu",
))
_PURE_METHODS = frozenset((
    "squeeze", "unsqueeze", "permute", "clamp", "masked_fill", "detach", "reshape", "view",
    "transpose", "flatten", "mul", "div", "masked_select",
))
_ARITHMETIC_METHODS = frozenset(("sub", "mul", "div", "clip", "lerp", "addcmul", "addcdiv"))
_PARAMETERS = ("parameters", "named_parameters", "buffers", "named_buffers")
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_NAMESPACES = frozenset(("torch", "F", "nn", "functional", "flambeau"))


class Lack(enum.Enum):
    """What a statement without effect lacks."""

    CALL = enum.auto()
    RESULT = enum.auto()  # is used by nothing
    TARGET = enum.auto()  # is a name, not the parameter


class IdleStatement(NamedTuple):
    """A statement without effect."""

    line: int
    source: str
    lack: Lack


def find_idle_statements(tree: ast.AST) -> Iterator[IdleStatement]:
    """Yield the statements without effect."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            yield from find_rebound_parameters(node)
        elif isinstance(node, ast.Expr):
            lack = _find_lack(node.value)
            if lack is not None:
                yield IdleStatement(node.lineno, ast.unparse(node.value), lack)


def _find_lack(expression: ast.expr) -> Lack | None:
    """Return what an expression that is a statement lacks."""
    if isinstance(expression, ast.Attribute):
        return Lack.CALL if expression.attr in _METHODS else None
    if isinstance(expression, ast.Call):
        return Lack.RESULT if _is_pure_call(expression) else None
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, _ARITHMETIC):
        return Lack.RESULT if "loss" in ast.unparse(expression).lower() else None
    return None


def _is_pure_call(call: ast.Call) -> bool:
    """Whether a call only returns a result."""
    if not isinstance(call.func, ast.Attribute) \
            or any(k.arg in ("inplace", "out") for k in call.keywords):
        return False
    owner, name = call.func.value, call.func.attr
    if isinstance(owner, ast.Attribute) and owner.attr in ("data", "grad"):
        return name in _PURE | _PURE_METHODS | _ARITHMETIC_METHODS
    if not isinstance(owner, ast.Name):
        return False
    if owner.id in _NAMESPACES and name in (_PURE | _PURE_METHODS) - _ARITHMETIC_METHODS:
        return True
    return owner.id != "self" and name in _PURE_METHODS


def find_rebound_parameters(loop: ast.For) -> Iterator[IdleStatement]:
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
            yield IdleStatement(statement.lineno, ast.unparse(statement), Lack.TARGET)


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

    def _read_file(self, spot: Spot | None) -> None:
        """Report the idle statements of the file that contains a spot, once."""
        if spot is None or spot[0].co_filename in self.files:
            return
        file = spot[0].co_filename
        self.files.add(file)
        tree = None if is_installed_file(file) else parse_file(file)
        for statement in find_idle_statements(tree) if tree is not None else ():
            self._report(statement, Place(file, statement.line))

    def _report(self, statement: IdleStatement, place: Place) -> None:
        source, frame = statement.source, find_user_frame(1)
        if statement.lack is Lack.CALL:
            self.report_when_run(f"`{source}` is named, not called: it does nothing", place, frame,
                                 fix=f"{source}()")
        elif statement.lack is Lack.TARGET:
            name, _, value = source.partition(" = ")
            self.report_when_run(f"`{source}` gives a name to a new tensor: no parameter changes",
                                 place, frame, fix=f"{name}.copy_({value}) under torch.no_grad()")
        else:
            self.report_when_run(f"the result of `{source}` is thrown away", place, frame,
                                 level=Level.LIKELY, fix=f"... = {source}")

    def on_backward(self, backward: Backward) -> None:
        self._read_file(backward.spot)

    on_gradient = on_backward

    def on_module_constructed(self, module: Any, spot: Spot | None) -> None:
        code = getattr(type(module).forward, "__code__", None)
        if code is not None and not type(module).__module__.startswith("flambeau."):
            self._read_file((code, 0))

    def after_step(self, update: Update) -> None:
        self._read_file(update.spot)
