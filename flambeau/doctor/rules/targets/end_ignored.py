"""End-of-episode flags that a target ignores."""

from __future__ import annotations

import ast
import re
from typing import Any

from ...events import Backward
from ...finding import Level, Place
from ...programs import edit
from ...source import find_body
from ..rule import Rule

# Names of flags that end an episode, and names or expressions of the next state.
_ENDS = re.compile(
    r"(not_?)?(dones?|terminals?|terminated)(_batch|_b|s)?|batch_(done|terminal)s?")
_NEXT = re.compile(r"next|nxt|s_?(2|1|p|prime|_)\b|new_")


class EndIgnored(Rule):
    """Reads the source of the function that calls backward(): which of its names it uses."""

    id = "end-of-episode-ignored"
    level = Level.LIKELY
    needs = ("on_backward",)
    title = "the end-of-episode flag is read but not used: the target extends beyond the end"
    why = (
        "After the last step there is no next state whose value could count: the target is r + "
        "gamma * (1 - done) * Q(next). Reported when the function that calls backward() sets a "
        "name such as done or terminal, uses it for nothing but a conversion, and adds a multiple "
        "of what it computes for the next state. Not reported if the flag is used in any other "
        "way."
    )
    fix = "target = reward + gamma * (1 - done) * next_value"
    broken = """
net = nn.Linear(8, 3)
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    state, next_state, reward, done = x, x + 0.1, t[:, 0], t[:, 0] > 1
    with torch.no_grad():
        target = reward + 0.9 * net(next_state).max(1).values  # <-
    loss = F.mse_loss(net(state).max(1).values, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "target = reward + 0.9 * net(next_state).max(1).values  # <-":
            "target = reward + 0.9 * net(next_state).max(1).values * (1 - done.float())",
    })
    healthy = ("""
# The next values of ended episodes were set to 0 before.
net = nn.Linear(8, 3)
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    state, next_state, reward, done = x, x + 0.1, t[:, 0], t[:, 0] > 1
    with torch.no_grad():
        next_value = net(next_state).max(1).values
        next_value[done] = 0
        target = reward + 0.9 * next_value
    loss = F.mse_loss(net(state).max(1).values, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A bandit: nothing comes after an action.
net = nn.Linear(8, 3)
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    state, reward, done = x, t[:, 0], True
    loss = F.mse_loss(net(state).max(1).values, reward)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.checked: set[Any] = set()  # code objects

    def on_backward(self, backward: Backward) -> None:
        code = None if backward.spot is None else backward.spot[0]
        if code is None or code in self.checked:
            return
        self.checked.add(code)
        body = find_body(code.co_filename, code)
        if body is None:
            return
        target = _find_target(body)
        flags = _find_unused_flags(body)
        if target is not None and flags:
            self.report(f"`{flags[0]}` is set but never used",
                        Place(code.co_filename, target.lineno, code.co_qualname), backward.spot)

    on_gradient = on_backward


def _find_unused_flags(body: ast.AST) -> list[str]:
    """Return the flags that are assigned but read only by assignments to themselves."""
    flags: dict[str, None] = {}
    excluded: set[int] = set()
    for node in ast.walk(body):
        if isinstance(node, ast.Assign):
            names = {child.id for target in node.targets for child in ast.walk(target)
                     if isinstance(child, ast.Name)}
            flags |= dict.fromkeys(n for n in names if _ENDS.fullmatch(n))
            excluded |= {id(child) for child in ast.walk(node.value)
                         if isinstance(child, ast.Name) and names == {child.id}}
    read_names = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)
                  and isinstance(node.ctx, ast.Load) and id(node) not in excluded}
    return [name for name in flags if name not in read_names]


def _find_target(body: ast.AST) -> ast.stmt | None:
    """Return an assignment of `a + b * c` with a factor that is computed from the next state."""
    next_values = {target.id for node in ast.walk(body) if isinstance(node, ast.Assign)
                 and _NEXT.search(ast.unparse(node.value))
                 for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(body):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.BinOp) \
                or not isinstance(node.value.op, ast.Add):
            continue
        for term in (node.value.left, node.value.right):
            if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
                names = {child.id for child in ast.walk(term) if isinstance(child, ast.Name)}
                if any(_NEXT.search(name) for name in names) or names & next_values:
                    return node
    return None
