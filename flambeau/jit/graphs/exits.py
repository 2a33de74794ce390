"""Loops without break, continue and return: flags stand for them, as blocks have one end."""

from __future__ import annotations

import ast
import itertools

__all__ = ["ends_loop", "list_flags", "remove_exits"]

_EXITS = (ast.Break, ast.Continue, ast.Return)


def remove_exits(function: ast.FunctionDef) -> ast.FunctionDef:
    """Return the function with flags in the place of exits from its loops."""
    copied: ast.FunctionDef = ast.parse(ast.unparse(function)).body[0]  # type: ignore[assignment]
    if any(isinstance(n, ast.For | ast.While) for n in ast.walk(copied)):
        kind = "Any" if copied.returns is None else ast.unparse(copied.returns)
        copied.body = _Exits(kind).rewrite(copied.body)
        ast.fix_missing_locations(copied)
    return copied


def list_flags(loop: ast.For | ast.While) -> list[str]:
    """Return the flags that end a rewritten loop."""
    return list(getattr(loop, "flags", ()))


def ends_loop(node: ast.AST) -> bool:
    """Return whether a statement may leave the loop around it, or its round."""
    if isinstance(node, _EXITS):
        return True
    if isinstance(node, ast.For | ast.While):
        return any(isinstance(n, ast.Return) for n in ast.walk(node))
    return any(ends_loop(child) for child in ast.iter_child_nodes(node))


class _Exits:
    """Rewrites the loops of one function, which returns values of the type `kind`."""

    def __init__(self, kind: str) -> None:
        self._kind, self._numbers = kind, itertools.count()

    def rewrite(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return statements with their loops rewritten, the innermost first."""
        result: list[ast.stmt] = []
        for statement in body:
            if isinstance(statement, ast.For | ast.While):
                result += self._rewrite_loop(statement)
                continue
            for name in ("body", "orelse"):
                if hasattr(statement, name) and not isinstance(statement, ast.FunctionDef):
                    setattr(statement, name, self.rewrite(getattr(statement, name)))
            result.append(statement)
        return result

    def _rewrite_loop(self, loop: ast.For | ast.While) -> list[ast.stmt]:
        loop.body = self.rewrite(loop.body)
        if not any(map(ends_loop, loop.body)):
            return [loop]
        number = next(self._numbers)
        flags = _Flags(number)
        loop.body = flags.rewrite(loop.body)
        before, after = [], list[ast.stmt]()
        if flags.continued in flags.used:
            loop.body.insert(0, _assign(flags.continued, "False"))
            before.append(_assign(flags.continued, "False"))
        for name in (flags.broken, flags.returned):
            if name in flags.used:
                before.append(_assign(name, "False"))
        if flags.returned in flags.used:
            before.append(_assign(flags.value, f"uninitialized({self._kind})"))
            after += ast.parse(f"if {flags.returned}:\n    return {flags.value}").body
        loop.flags = [name for name in (  # type: ignore[union-attr]
            flags.broken, flags.returned) if name in flags.used]
        return [*before, loop, *after]


class _Flags:
    """The flags of one loop."""

    def __init__(self, number: int) -> None:
        self.broken, self.continued = f"_broke_{number}", f"_continued_{number}"
        self.returned, self.value = f"_returned_{number}", f"_result_{number}"
        self.used: set[str] = set()

    def rewrite(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return a body without exits: what follows one that may happen depends on its flag."""
        result: list[ast.stmt] = []
        for position, statement in enumerate(body):
            if isinstance(statement, _EXITS):
                return [*result, *self._set(statement)]
            if not isinstance(statement, ast.If) or not ends_loop(statement):
                if ends_loop(statement):
                    raise NotImplementedError(
                        f"an exit within {type(statement).__name__} in a graph")
                result.append(statement)
                continue
            before = set(self.used)
            self.used = set()
            statement.body = self.rewrite(statement.body)
            statement.orelse = self.rewrite(statement.orelse)
            flags, self.used = sorted(self.used), self.used | before
            test = ast.parse(f"not ({' or '.join(flags)})", mode="eval").body
            rest = self.rewrite(body[position + 1:])
            return [*result, statement, *([ast.If(test, rest, [])] if rest else [])]
        return result

    def _set(self, node: ast.stmt) -> list[ast.stmt]:
        name = self.broken if isinstance(node, ast.Break) else self.continued \
            if isinstance(node, ast.Continue) else self.returned
        self.used.add(name)
        if not isinstance(node, ast.Return):
            return [_assign(name, "True")]
        value = "None" if node.value is None else ast.unparse(node.value)
        return [_assign(self.value, value), _assign(name, "True")]


def _assign(name: str, text: str) -> ast.stmt:
    return ast.parse(f"{name} = {text}").body[0]
