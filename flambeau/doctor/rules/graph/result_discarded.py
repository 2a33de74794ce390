"""The result of a method that changes nothing is thrown away."""

from __future__ import annotations

import ast
from typing import Any

from ....native.foundation.user_frames import find_user_frame
from ....tensor.tensor import Tensor
from ...events import Backward
from ...finding import Level, Place
from ...programs import edit
from ...source import find_body
from ..rule import Rule

_PURE = frozenset((
    "abs", "add", "clamp", "clip", "contiguous", "cpu", "cuda", "detach", "div", "double", "exp",
    "expand", "flatten", "float", "half", "int", "log", "long", "masked_fill", "mean", "mul",
    "norm", "permute", "pow", "relu", "reshape", "round", "scatter", "sigmoid", "softmax",
    "sqrt", "squeeze", "sub", "sum", "tanh", "to", "transpose", "type", "unsqueeze", "view",
))


class ResultDiscarded(Rule):
    """Reads the function that calls backward(), once, together with the values of its variables."""

    id = "result-discarded"
    level = Level.LIKELY
    needs = ("on_backward",)
    title = "a statement computes a new tensor and discards it: the original is unchanged"
    why = (
        "x.div(255), x.to(dtype) and x.unsqueeze(1) return a new tensor. Reported for statements "
        "that consist of such a call, in the function that calls backward(). Not reported for "
        "methods that end in _ or for modules, which .to() changes in place."
    )
    fix = "x = x.div(255), or in place: x.div_(255)"
    broken = """
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    pixels = 255 * torch.rand(64, 8)
    pixels.div(255)  # <-
    loss = F.cross_entropy(net(pixels), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "pixels.div(255)  # <-": "pixels = pixels.div(255)",
    })
    healthy = ("""
# In place, and a module's own.
net = nn.Linear(8, 3)
net.to(torch.float32)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    pixels = 255 * torch.rand(64, 8)
    pixels.div_(255)
    loss = F.cross_entropy(net(pixels), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A list's methods, and an object's of one's own.
net, seen = nn.Linear(8, 3), set()
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    seen.add(0)
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.looked: set[Any] = set()

    def on_backward(self, backward: Backward) -> None:
        frame = find_user_frame(1)
        if not backward.watched or frame is None or frame.f_code in self.looked:
            return
        self.looked.add(frame.f_code)
        body = find_body(frame.f_code.co_filename, frame.f_code)
        for node in ast.walk(body) if body is not None else ():
            if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
                continue
            method = node.value.func
            if isinstance(method, ast.Attribute) and method.attr in _PURE \
                    and isinstance(method.value, ast.Name) \
                    and type(frame.f_locals.get(method.value.id)) is Tensor:
                place = Place(frame.f_code.co_filename, node.lineno, frame.f_code.co_qualname)
                self.report_when_run(f"{method.value.id}.{method.attr}(...) changes nothing",
                                     place, frame)

    on_gradient = on_backward
