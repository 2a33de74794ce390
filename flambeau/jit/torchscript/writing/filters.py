"""Rewrite comprehensions with conditions, which TorchScript lacks: a loop selects the items first.

`[f(x) for x in xs if c(x)]` becomes

    items = [x for x in xs]
    chosen = items[:0]            # empty, of the same type
    for x in items:
        if c(x):
            chosen.append(x)

and `[f(x) for x in chosen]`. All conditions run before the first `f`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

__all__ = ["expand_filter", "find_filtered_comprehensions", "name_item"]

_CONDITIONAL = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.DictComp, ast.SetComp,
                ast.GeneratorExp)


def find_filtered_comprehensions(statement: ast.AST) -> Iterator[ast.ListComp]:
    """Yield the conditional comprehensions that a statement evaluates unconditionally."""
    for node in ast.iter_child_nodes(statement):
        if isinstance(node, ast.ListComp) and len(node.generators) == 1 and node.generators[0].ifs:
            yield node
        elif not isinstance(node, _CONDITIONAL):
            yield from find_filtered_comprehensions(node)


def expand_filter(node: ast.ListComp, items: str, chosen: str) -> list[ast.stmt]:
    """Return the statements that select the items; make the comprehension iterate over them."""
    (loop,) = node.generators
    names = ast.unparse(loop.target)
    test = " and ".join(f"({ast.unparse(condition)})" for condition in loop.ifs)
    statements = ast.parse(f"{items} = [{names} for {names} in {ast.unparse(loop.iter)}]\n"
                           f"{chosen} = {items}[:0]\n"
                           f"for {names} in {items}:\n"
                           f"  if {test}:\n    {chosen}.append({names})").body
    for statement in statements:
        for part in ast.walk(statement):
            ast.copy_location(part, node)
    node.generators = [ast.comprehension(copy.deepcopy(loop.target), ast.Name(chosen, ast.Load()),
                                         [], 0)]
    return statements


def name_item(node: ast.ListComp | ast.DictComp, item: str) -> None:
    """Replace a comprehension's tuple target by one name: `k, v` become `item[0]`, `item[1]`.

    PyTorch's parser accepts no tuple there.
    """
    loop = node.generators[0]
    if not isinstance(loop.target, (ast.Tuple, ast.List)):
        return
    values: dict[str, str] = {}

    def place(target: ast.expr, path: str) -> None:
        if isinstance(target, ast.Name):
            values[target.id] = path
        for number, element in enumerate(getattr(target, "elts", ())):
            place(element, f"{path}[{number}]")

    place(loop.target, item)
    loop.target = ast.copy_location(ast.Name(item, ast.Store()), loop.target)
    for owner in (node, *([loop] if loop.ifs else [])):
        for field, value in ast.iter_fields(owner):
            if field in ("elt", "key", "value"):
                setattr(owner, field, _Replaced(values).visit(value))
            elif field == "ifs":
                loop.ifs = [_Replaced(values).visit(test) for test in value]


class _Replaced(ast.NodeTransformer):
    """Replaces names by expressions."""

    def __init__(self, values: dict[str, str]) -> None:
        self.places = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name."""
        path = self.places.get(node.id)
        return node if path is None else ast.copy_location(
            ast.parse(path, mode="eval").body, node)
