"""The figures of the house: sizes, folders, imports and tuned constants, measured on the sources.

`python tests/house_figures.py` prints them; test_house.py enforces them.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "flambeau"
CORE = ("ops", "native", "compiler")  # the folders below the public interface
MACHINE = "flambeau/native/target/"  # the machine description and the cost model

Imports = dict[str, set[str]]  # by module: the modules of the package that it imports


@dataclass
class Source:
    """A file: its path from the root, its module name, its lines, and what it defines."""

    path: str
    module: str
    lines: int
    formatter_comments: int
    classes: dict[str, int] = field(default_factory=dict)  # by name: lines
    functions: list[int] = field(default_factory=list)  # lines of code of each
    constants: list[str] = field(default_factory=list)  # module-level numbers
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)  # but for annotations

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


_measured: dict[str, Source] = {}  # by path from the root


@cache
def sources() -> tuple[Source, ...]:
    """All files of the package, in order of their paths. Parses those not measured yet."""
    result = []
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name not in _measured:
            text = path.read_text()
            measure(name, text, ast.parse(text))
        result.append(_measured[name])
    return tuple(result)


def measure(name: str, text: str, tree: ast.Module) -> None:
    """Measure a file of the package that is parsed already."""
    parts = name.removesuffix(".py").removesuffix("/__init__").split("/")
    source = Source(name, ".".join(parts), text.count("\n"), text.count("# fmt:"))
    _collect(source, tree)
    _measured[name] = source


def _collect(source: Source, tree: ast.Module) -> None:
    """Fill in what a file defines, in one walk over its statements."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.ClassDef):
            source.classes[node.name] = (node.end_lineno or 0) - node.lineno + 1
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            source.functions.append(code_lines(node))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            source.imports.append(node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            stack += node.orelse
            continue
        stack += ast.iter_child_nodes(node)
    source.constants = [
        target.id for node in tree.body if isinstance(node, ast.Assign) and _is_number(node.value)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.lstrip("_").isupper()
    ]


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function's body behind its docstring."""
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    return 0 if not body else (body[-1].end_lineno or 0) - body[0].lineno + 1


def class_lengths() -> dict[str, int]:
    """The lines of each class, by file and name."""
    return {f"{source.path}:{name}": lines
            for source in sources() for name, lines in source.classes.items()}


def folder_sizes() -> Counter[str]:
    """How many files each folder holds."""
    return Counter(source.folder for source in sources())


def numeric_constants() -> list[str]:
    """Module-level constants that are numbers, in CORE and outside MACHINE, as path:NAME."""
    return [
        f"{source.path}:{name}" for source in sources()
        if source.path.split("/")[1] in CORE and not source.path.startswith(MACHINE)
        for name in source.constants
    ]


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


# ---------------------------------------------------------------------------------- imports


@cache
def imports() -> Imports:
    """What each module imports, inside functions too; imports for annotations do not count."""
    known = {source.module for source in sources()}
    return {source.module: set(_imported(source, known)) - {source.module} for source in sources()}


def _imported(source: Source, known: set[str]) -> Iterator[str]:
    is_package = source.path.endswith("/__init__.py")
    parts = source.module.split(".")
    for node in source.imports:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
            continue
        up = node.level - is_package
        base = parts[: len(parts) - up] if node.level else []
        name = ".".join([*base, *([node.module] if node.module else [])])
        for alias in node.names:
            inner = f"{name}.{alias.name}"
            if inner in known:
                yield inner
            elif name in known:
                yield name


def circles(graph: Imports) -> list[list[str]]:
    """Sets of more than one module that import each other (Tarjan's algorithm), largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    result: list[list[str]] = []
    for root in graph:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        path.append(root)
        stack = [(root, iter(sorted(graph[root])))]
        while stack:
            module, targets = stack[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    path.append(target)
                    stack.append((target, iter(sorted(graph[target]))))
                    break
                if target in path:
                    low[module] = min(low[module], index[target])
            else:
                stack.pop()
                if stack:
                    low[stack[-1][0]] = min(low[stack[-1][0]], low[module])
                if low[module] == index[module]:
                    at = path.index(module)
                    if len(path) - at > 1:
                        result.append(sorted(path[at:]))
                    del path[at:]
    return sorted(result, key=len, reverse=True)


def floors(folder: str) -> int:
    """The longest chain of imports among a top-level folder's rooms (its files and folders)."""
    rooms: Imports = {}
    for module, targets in imports().items():
        if (room := _room(module, folder)) is not None:
            others = {_room(target, folder) for target in targets}
            rooms.setdefault(room, set()).update(others - {None, room})  # type: ignore[arg-type]
    merged = {room: circle[0] for circle in circles(rooms) for room in circle}
    joined: Imports = {}
    for room, targets in rooms.items():
        home = merged.get(room, room)
        joined.setdefault(home, set()).update(merged.get(t, t) for t in targets)
    heights: dict[str, int] = {}

    def height(room: str) -> int:
        if room not in heights:
            below = (height(t) for t in joined.get(room, ()) if t != room)
            heights[room] = 1 + max(below, default=0)
        return heights[room]

    return max(map(height, joined), default=0)


def _room(module: str, folder: str) -> str | None:
    parts = module.split(".")
    return parts[2] if len(parts) > 2 and parts[1] == folder else None


# ----------------------------------------------------------------------------------- report


def lines_of(folders: Iterable[str]) -> int:
    """The lines of some top-level folders together."""
    wanted = tuple(f"{PACKAGE}/{folder}/" for folder in folders)
    return sum(s.lines for s in sources() if s.path.startswith(wanted))


def report() -> Iterator[str]:
    """The figures, a line each."""
    functions = [lines for source in sources() for lines in source.functions]
    lengths = [source.lines for source in sources()]
    classes = class_lengths()
    folders = folder_sizes()
    knots = circles(imports())
    yield f"files: {len(lengths)}, lines: {sum(lengths)}, functions: {len(functions)}"
    yield f"functions of more than 40 lines of code: {sum(n > 40 for n in functions)}"
    yield (f"files of more than 400 lines: {sum(n > 400 for n in lengths)}, "
           f"the longest {max(lengths)}")
    yield f"classes of more than 250 lines: {sum(n > 250 for n in classes.values())}"
    longest = max(classes, key=lambda name: classes[name])
    yield f"the longest class: {classes[longest]} lines ({longest})"
    crowded = [f"{folder} {n}" for folder, n in folders.most_common() if n > 25]
    yield f"folders of more than 25 files: {', '.join(crowded) or 'none'}"
    yield f"circles of imports: {len(knots)}, the largest of {len(knots[0]) if knots else 0} files"
    for folder in CORE:
        yield f"floors of {folder}/: {floors(folder)}"
    yield f"lines of {', '.join(CORE)}: {lines_of(CORE)}"
    yield f"numeric constants outside the machine description: {len(numeric_constants())}"
    yield f"comments that keep the formatter off: {sum(s.formatter_comments for s in sources())}"


if __name__ == "__main__":
    print("\n".join(report()))
