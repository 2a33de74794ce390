"""Explains why a tensor has no graph, or a freed one, in notes added to backward's errors.

Nothing is recorded while a program runs. When backward fails, the source of the user's function and
the values of its variables are searched for the statement that cut the graph: its inputs have
gradients and its result has none.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from ...native.foundation.call_advice import look_up
from ...native.foundation.user_frames import find_user_frame, is_internal
from ...tensor.tensor import Tensor
from ..mode import MODE

if TYPE_CHECKING:
    from ..node import Node

_CUTS = {
    "argmax": "argmax() gives positions, which have no gradient",
    "argmin": "argmin() gives positions, which have no gradient",
    "argsort": "argsort() gives positions, which have no gradient",
    "detach": "detach() takes the tensor out of the graph",
    "item": "item() gives a Python number, without a graph",
    "tolist": "tolist() gives Python numbers, without a graph",
    "numpy": "numpy() gives an array, without a graph",
    "tensor": "torch.tensor() copies the numbers into a new tensor, without their graph",
    "as_tensor": "torch.as_tensor() of numbers gives a tensor without a graph",
    "from_numpy": "torch.from_numpy() gives a tensor without a graph",
    "long": "long() gives integers, which have no gradient",
    "int": "int() gives integers, which have no gradient",
    "bool": "bool() gives truth values, which have no gradient",
    "eq": "a comparison has no gradient",
}
_SWITCHES = ("no_grad", "inference_mode", "set_grad_enabled")


def explain_missing_graph(y: Tensor) -> str:
    """Return what cut a tensor off from the graph, with the line if the source shows it."""
    if not MODE.grad:
        return "gradients are disabled here: backward() runs inside of torch.no_grad() or the like"
    frame = find_user_frame()
    cause = None
    with suppress(Exception):  # a failed search must not hide the original error
        cause = _find_cause(y, frame)
    if cause is not None:
        return cause
    function = "" if frame is None else f" of {frame.f_code.co_name}"
    return (
        f"no statement{function} cuts the graph: what it is computed from does not require grad (a "
        "frozen model?), or a function that it calls cuts it: flambeau --doctor says where"
    )


def _find_cause(y: Tensor, frame: FrameType | None) -> str | None:
    if frame is None:
        return None
    statements = _list_statements(frame)
    for name in [name for name, value in list(frame.f_locals.items()) if value is y]:
        cause = _trace(name, frame, statements, set())
        if cause is not None:
            return cause
    for line, value in _iterate_roots(frame, statements):
        calls = [node for node in _iterate_differentiable(value) if isinstance(node, ast.Call)]
        for cause in (_cut_in(value, line, frame), *(_cut_in_call(c, frame) for c in calls)):
            if cause is not None:
                return cause
        for node in _iterate_differentiable(value):  # F.mse_loss(output, target).backward()
            if isinstance(node, ast.Name) \
                    and isinstance(known := frame.f_locals.get(node.id), Tensor) \
                    and not known.requires_grad:
                cause = _trace(node.id, frame, statements, set())
                if cause is not None:
                    return cause
    return None


def _iterate_roots(frame: FrameType, statements: list[ast.stmt]) -> Iterator[tuple[int, ast.expr]]:
    """Yield (line, expression) that backward() is called on in the running statement."""
    for statement in statements:
        if statement.lineno <= frame.f_lineno <= (statement.end_lineno or 0):
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) \
                        and node.func.attr == "backward":
                    yield node.lineno, node.func.value


def _list_statements(frame: FrameType) -> list[ast.stmt]:
    """Return the statements of a frame's function, or of its module."""
    try:
        lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
        tree: ast.AST = _parse("".join(lines))
    except (SyntaxError, ValueError):
        return []
    if frame.f_code.co_name != "<module>":
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) \
                    and node.name == frame.f_code.co_name \
                    and node.lineno <= frame.f_lineno <= (node.end_lineno or 0):
                tree = node
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


@functools.lru_cache(maxsize=2)
def _parse(source: str) -> ast.Module:
    """Parse source, cached for programs that fail in a loop."""
    return ast.parse(source)


def _iterate_assignments(name: str, statements: list[ast.stmt]) -> Iterator[tuple[int, ast.expr]]:
    for node in statements:
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            written = {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            if name in written:
                yield node.lineno, node.value


def _trace(
    name: str, frame: FrameType, statements: list[ast.stmt], done: set[str]
) -> str | None:
    """Return the statement that cut `name` off, searched backwards from its assignment."""
    done.add(name)
    before = [
        (line, v) for line, v in _iterate_assignments(name, statements) if line <= frame.f_lineno
    ]
    if not before:
        return None
    line, value = max(before, key=lambda pair: pair[0])
    cut = _cut_in(value, line, frame)
    if cut is not None:
        return cut
    switch = _find_no_grad(line, statements)
    if switch is not None:
        return (f"line {line} runs inside of {switch[1]} (line {switch[0]}), which records no graph"
                f"\n    {_read_line(frame, line)}")
    for node in _iterate_differentiable(value):
        if isinstance(node, ast.Call):
            cause = _cut_in_call(node, frame)
            if cause is not None:
                return cause
        if isinstance(node, ast.Name) and node.id not in done:
            known = frame.f_locals.get(node.id)
            if isinstance(known, Tensor) and known.requires_grad:
                continue
            cause = _trace(node.id, frame, statements, done)
            if cause is not None:
                return cause
    return None


def _cut_in_call(call: ast.Call, frame: FrameType) -> str | None:
    """Return the statement that cuts the graph in a called function or forward method."""
    called = look_up(call.func, frame)
    inner = [called]
    if hasattr(called, "named_modules") and not isinstance(called, type):
        parameters = list(called.parameters())
        if parameters and not any(p.requires_grad for p in parameters):
            return (f"no parameter of {ast.unparse(call.func)} requires grad (line {call.lineno}): "
                    "all are frozen")
        inner = [module.forward for _, module in called.named_modules()]
    for function in map(inspect.unwrap, inner):
        code = getattr(function, "__code__", None)
        if code is not None and not is_internal(code):
            cause = _cut_in_function(function, code)
            if cause is not None:
                return cause
    return None


def _cut_in_function(function: Any, code: CodeType) -> str | None:
    lines, first = _read_source(function)
    try:
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except SyntaxError:
        return None
    definition = tree.body[0] if tree.body else None
    if not isinstance(definition, ast.FunctionDef):
        return None
    statements = [node for node in ast.walk(definition) if isinstance(node, ast.stmt)]
    location = f"of {code.co_qualname} in {code.co_filename}"
    for decorator in map(ast.unparse, definition.decorator_list):
        if any(switch in decorator for switch in _SWITCHES):
            return f"{code.co_qualname} is decorated by @{decorator}, which records no graph"
    for statement in statements:
        if not isinstance(statement, ast.Return) or statement.value is None:
            continue
        for line, value in _iterate_sources(statement, statements):
            switch = _find_no_grad(line, statements)
            if switch is not None:
                return (f"line {line + first - 1} {location} runs inside of {switch[1]}, which "
                        f"records no graph\n    {lines[line - 1].strip()}")
            cut = next(filter(None, map(_cut_of, _iterate_differentiable(value))), None)
            if cut is not None:
                return (f"line {line + first - 1} {location} cuts the graph: {cut}"
                        f"\n    {lines[line - 1].strip()}")
    return None


def _iterate_sources(
    result: ast.Return, statements: list[ast.stmt]
) -> Iterator[tuple[int, ast.expr]]:
    """Yield the expressions that a returned value comes from, following its names backwards."""
    assert result.value is not None
    todo: list[tuple[int, ast.expr]] = [(result.lineno, result.value)]
    seen: set[str] = set()
    while todo:
        line, value = todo.pop()
        yield line, value
        for node in _iterate_differentiable(value):
            if isinstance(node, ast.Name) and node.id not in seen:
                seen.add(node.id)
                earlier = [
                    pair for pair in _iterate_assignments(node.id, statements) if pair[0] < line
                ]
                todo += earlier[-1:]


def _read_source(function: Any) -> tuple[list[str], int]:
    try:
        return inspect.getsourcelines(function)
    except (OSError, TypeError):
        return [], 0


def _iterate_differentiable(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of an expression that its gradient flows through: of a call's arguments only
    the first, because the others of a loss are targets."""
    yield node
    children = ast.iter_child_nodes(node)
    if isinstance(node, ast.Call):
        children = iter([node.func, *node.args[:1]])
    for child in children:
        yield from _iterate_differentiable(child)


def _cut_in(value: ast.expr, line: int, frame: FrameType) -> str | None:
    for node in _iterate_differentiable(value):
        cut = _cut_of(node)
        if cut is not None:
            return f"line {line} cuts the graph: {cut}\n    {_read_line(frame, line)}"
    return None


def _cut_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute) and node.attr == "data":
        return ".data takes the tensor out of the graph"
    if isinstance(node, ast.Compare):
        return _CUTS["eq"]
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in _CUTS and (name not in ("int", "bool", "tensor", "eq") or node.args):
            return _CUTS[name]
    return None


def _find_no_grad(line: int, statements: list[ast.stmt]) -> tuple[int, str] | None:
    """Return (line, text) of a `with torch.no_grad():` or similar around a line, or None."""
    for node in statements:
        if isinstance(node, (ast.With, ast.AsyncWith)) and node.lineno <= line <= (
            node.end_lineno or 0
        ):
            for item in node.items:
                text = ast.unparse(item.context_expr)
                if any(switch in text for switch in _SWITCHES):
                    return node.lineno, text
    return None


def _read_line(frame: FrameType, line: int) -> str:
    return linecache.getline(frame.f_code.co_filename, line, frame.f_globals).strip()


# ------------------------------------------------------------------------ used-up graphs


def explain_freed_graph(node: Node) -> str:
    """Return where backward freed the graph, and which variables carried it over."""
    frame = find_user_frame()
    if frame is None:
        return "call backward() once on each graph"
    statements = _list_statements(frame)
    lines = sorted({
        call.lineno for statement in statements for call in ast.walk(statement)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("backward", "grad")
    })
    here = frame.f_lineno
    earlier = [line for line in lines if line < here]
    notes = []
    spot = node.__dict__.get("_doctor_spot")
    if spot is not None and spot[0] is not None:
        code = spot[0][0]
        notes.append(f"the freed node was recorded in {code.co_qualname} of {code.co_filename}")
    carried = [
        name for name, value in list(frame.f_locals.items())
        if isinstance(value, Tensor) and value._node is not None and _reaches(value._node, node)
    ]
    if earlier:
        notes.append(f"an earlier backward(), at line {earlier[-1]}, has freed part of this graph")
    else:
        notes.append(f"line {here} has run before: it freed the graph that is used again here")
    if len(carried) > 1 or (carried and not earlier):
        assignments = "; ".join(_describe_assignments(name, statements) for name in carried[:3])
        notes.append(f"what brings the old graph along: {assignments}. Detach what is carried over "
                     "from one step to the next: state = state.detach()")
    return "\n".join(notes)


def _describe_assignments(name: str, statements: list[ast.stmt]) -> str:
    lines = sorted({line for line, _ in _iterate_assignments(name, statements)})
    return f"{name} (line {', '.join(map(str, lines))})" if lines else name


def _reaches(start: Any, wanted: Node) -> bool:
    """Return whether a node is reachable from another."""
    seen: set[int] = set()
    stack = [start]
    while stack:
        target = stack.pop()
        if isinstance(target, Tensor):
            continue
        node = target.shown()
        if node is wanted:
            return True
        if id(node) not in seen:
            seen.add(id(node))
            stack.extend(edge for edge in node.edges if edge is not None)
    return False
