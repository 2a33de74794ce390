"""A 'best' model that is chosen by the greatest loss, and averages by the wrong number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from ....native.foundation.user_frames import find_user_frame
from ...events import Backward
from ...finding import Level, Place
from ...programs import edit
from ...source import parse_file
from ..rule import Rule

_LOSS = re.compile(r"loss|err(or)?\b|mse|rmse|mae|perplexity|ppl|nll|cross_entropy", re.IGNORECASE)
_NEGATED = re.compile(r"neg|minus|acc|score|gain|reduction|improve", re.IGNORECASE)
_KEEPS = re.compile(r"state_dict|deepcopy|\.save\b|save_|checkpoint")
_MAX_FILES = 8  # that are read


class KeepsTheWorst(Rule):
    """Reads the conditions under which a program keeps a state of its model."""

    id = "best-by-greatest-loss"
    level = Level.LIKELY
    needs = ("on_backward",)
    title = "the model is saved when its loss exceeds the best so far: the worst model wins"
    why = (
        "A smaller loss is better. Reported when the program compares a loss by `>` with the "
        "value that it then replaces, and stores a state. A name counts as a loss if it says so "
        "or if it is set to the item() of a loss. Not reported for scores and accuracies."
    )
    fix = "if loss < best, with best = float('inf') initially"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
best = 0.0
for _ in range(4):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    value = F.mse_loss(net(x), t).item()
    if value > best:  # <-
        best = value
        state = copy.deepcopy(net.state_dict())
"""
    fixed = edit(broken, {
        "best = 0.0": 'best = float("inf")',
        "if value > best:  # <-": "if value < best:",
    })
    healthy = ("""
# An accuracy is better when it is greater.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
best = 0.0
for _ in range(4):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    accuracy = (net(x).argmax(1) == y).float().mean().item()
    if accuracy > best:
        best = accuracy
        state = copy.deepcopy(net.state_dict())
""", """
# The greatest loss is noted, and nothing is kept for it.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
worst_loss = 0.0
for _ in range(4):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() > worst_loss:
        worst_loss = loss.item()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.files: set[str] = set()

    def on_backward(self, backward: Backward) -> None:
        if backward.spot is None:
            return
        file = backward.spot[0].co_filename
        if file in self.files or len(self.files) > _MAX_FILES:
            return
        self.files.add(file)
        tree = parse_file(file)
        function = enclosing_function(tree, backward.spot[0].co_firstlineno) if tree else None
        for branch in ast.walk(function) if function is not None else ():
            if isinstance(branch, ast.If) and _keeps_the_greatest_loss(branch, function):
                self.report_when_run(f"a state is kept when `{ast.unparse(branch.test)}`",
                                     Place(file, branch.lineno), find_user_frame(1))

    on_gradient = on_backward


def enclosing_function(tree: ast.AST, line: int) -> ast.AST:
    """The function whose code begins at a line; the module where there is none."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and line in (
            node.lineno, *(d.lineno for d in node.decorator_list)
        ):
            return node
    return tree


def _keeps_the_greatest_loss(branch: ast.If, function: Any) -> bool:
    test = branch.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    greater, smaller = test.left, test.comparators[0]
    if isinstance(test.ops[0], (ast.Lt, ast.LtE)):
        greater, smaller = smaller, greater
    elif not isinstance(test.ops[0], (ast.Gt, ast.GtE)):
        return False
    value, best = ast.unparse(greater), ast.unparse(smaller)
    sets = any(t == best and v == value for t, v in _iterate_assignments(branch))
    keeps = any(_KEEPS.search(ast.unparse(statement)) for statement in branch.body)
    return sets and keeps and _is_loss(value, function)


def _is_loss(value: str, function: Any) -> bool:
    if _NEGATED.search(value):
        return False
    if _LOSS.search(value):
        return True
    sources = [source for target, source in _iterate_assignments(function) if target == value]
    return bool(sources) and all(
        _LOSS.search(source) and not _NEGATED.search(source) and not source.startswith("-")
        for source in sources
    )


def _iterate_assignments(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = zip(target.elts, node.value.elts, strict=False) if isinstance(
                    target, ast.Tuple) and isinstance(node.value, ast.Tuple) else [
                        (target, node.value)]
                yield from ((ast.unparse(a), ast.unparse(b)) for a, b in pairs)
