"""Functions whose backward does not read the gradient of their output."""

from __future__ import annotations

import dis
import inspect
import itertools
from types import CodeType
from typing import Any

from ....autograd.function import BackwardFunction
from ...events import Backward
from ...finding import Level, Place
from ...graph import find_spot
from ...programs import edit
from ...source import find_body
from ..rule import Rule

_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class BackwardIgnoresGradient(Rule):
    """Reads the code of the backward methods of Functions that are in the graph."""

    id = "backward-ignores-gradient"
    level = Level.CERTAIN
    needs = ("on_backward",)
    title = "a Function's backward does not multiply by the gradient of its output"
    why = (
        "backward(ctx, grad) must return the derivative of the loss: grad times the derivative of "
        "the function. Without grad it is right only if the function's output is the loss itself. "
        "Certain if the method never reads its argument. Not reported if it returns only None."
    )
    fix = "return grad * derivative"
    broken = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x**2  # <-

net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    F.mse_loss(Cube.apply(net(x)), t).backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "return 3 * x**2  # <-": "return grad * 3 * x**2",
    })
    healthy = ("""
# Straight through: the gradient as it is, which is not that of sign().
class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-1, 1)

net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    F.mse_loss(Sign.apply(net(x)), t).backward()
    optimizer.step()
""", """
# Nothing flows back, on purpose.
class Stop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return None

a, b = nn.Linear(8, 1), nn.Linear(8, 1)
optimizer = optim.SGD(a.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    F.mse_loss(a(x) + Stop.apply(b(x)), t).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.checked: set[Any] = set()  # classes of Functions

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched:
            return
        for node in backward.graph.nodes:
            if isinstance(node, BackwardFunction) and node._function not in self.checked:
                self.checked.add(node._function)
                self._check_backward(node._function, node, len(backward.graph.nodes))

    on_gradient = on_backward

    def _check_backward(self, function: Any, node: Any, node_count: int) -> None:
        """Report a backward of one gradient that neither reads it nor returns only None.

        A graph of one node is a loss by itself: its gradient is 1.
        """
        code = getattr(function.backward, "__code__", None)
        if code is None or code.co_argcount != 2 or code.co_flags & _VARIADIC \
                or node_count == 1:
            return
        gradient = code.co_varnames[1]
        if _reads(code, gradient) or gradient in code.co_cellvars:
            return
        lines = [i.positions.lineno for i in dis.get_instructions(code)
                 if i.opname == "RETURN_VALUE" and i.positions is not None]
        returns_only_none = all(
            loaded.opname == "LOAD_CONST" and loaded.argval is None
            for loaded, following in _pair_instructions(code) if following.opname == "RETURN_VALUE"
        )
        if returns_only_none or find_body(code.co_filename, code) is None \
                or not lines or not lines[-1]:
            return
        self.report(f"{function.__name__}.backward never reads `{gradient}`, the gradient of "
                    "its output", Place(code.co_filename, lines[-1], code.co_qualname),
                    find_spot(node))


def _reads(code: CodeType, name: str) -> bool:
    """Return whether an instruction loads a local variable; some load two at once."""
    return any(
        i.opname.startswith("LOAD") and (i.argval == name or
                                         isinstance(i.argval, tuple) and name in i.argval)
        for i in dis.get_instructions(code)
    )


def _pair_instructions(code: CodeType) -> list[tuple[Any, Any]]:
    """Return each instruction with the next one."""
    instructions = list(dis.get_instructions(code))
    return list(itertools.pairwise(instructions))
