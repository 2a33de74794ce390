"""Definitions in archive code: functions, and classes of modules, objects and tuples."""

from __future__ import annotations

import ast
import collections
import enum
import keyword
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...tensor.tensor import Tensor
from .expressions import ScriptSyntaxError, mangle_local
from .objects import ScriptObject
from .script_module import LoadedModule
from .translator import translate

if TYPE_CHECKING:
    from .program import Program

__all__ = ["ClassType", "Function", "define_class"]


def _change_nothing() -> None:
    """The code of a function without a graph is up to date."""


class Function:
    """A function of an archive, translated on its first call."""

    def __init__(self, program: Program, qualified_name: str, definition: ast.FunctionDef,
                 filename: str) -> None:
        self.program, self.qualified_name = program, qualified_name
        self.definition, self.filename = definition, filename
        self.name = self.__name__ = definition.name
        self.compiled: Any = None
        self.own_graph: Any = None  # once somebody asked for it
        self.follow: Callable[[], None] = _change_nothing  # brings the code up to date with it

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.follow()
        if self.compiled is None:
            self.compiled = self._compile()
        named = {mangle_local(k): v for k, v in kwargs.items()} if kwargs else kwargs
        try:
            return self.compiled(*args, **named)
        except TypeError as error:
            self._explain(error, args, kwargs)
            raise

    def _compile(self) -> Any:
        tree = ast.Module([translate(self.definition, self.filename, self.program.bind)], [])
        code = compile(tree, self.filename, "exec")
        space: dict[str, Any] = {}
        exec(code, self.program.environment, space)
        return space[self.name]

    def _explain(self, error: TypeError, args: tuple, kwargs: dict[str, Any]) -> None:
        """Raise PyTorch's error if the call does not match the parameters."""
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None and \
                error.__traceback__.tb_next.tb_next is not None:
            return
        names = [a.arg for a in self.definition.args.args]
        required = names[: len(names) - len(self.definition.args.defaults)]
        bound = {*names[: len(args)], *kwargs}
        missing = [n for n in required if n not in bound]
        unknown = [n for n in kwargs
                   if n not in names + [a.arg for a in self.definition.args.kwonlyargs]]
        if missing:
            problem = f"{self.name}() is missing value for argument '{missing[0]}'."
        elif unknown:
            problem = f"Unknown keyword argument '{unknown[0]}' for operator '{self.name}'."
        elif len(args) > len(names):
            problem = (f"{self.name}() expected at most {len(names)} argument(s) but received "
                    f"{len(args)} argument(s).")
        else:
            return
        raise RuntimeError(f"{problem} Declaration: {self.declaration}") from None

    def check(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """Raise PyTorch's RuntimeError if a Tensor argument is not a tensor."""
        nodes = self.definition.args.args
        for position, (node, value) in enumerate(zip(nodes, args, strict=False)):
            if isinstance(node.annotation, ast.Name) and node.annotation.id == "Tensor" and \
                    not isinstance(value, Tensor):
                raise RuntimeError(
                    f"{self.name}() Expected a value of type 'Tensor' for argument '{node.arg}' "
                    f"but instead found type '{type(value).__name__}'.\nPosition: {position}\n"
                    f"Value: {value}\nDeclaration: {self.declaration}\nCast error details: Unable "
                    f"to cast {value} to Tensor")

    @property
    def declaration(self) -> str:
        """The function's signature: name, parameters and types."""
        shown = [f"{ast.unparse(a.annotation)} {a.arg}" if a.annotation is not None else a.arg
                 for a in self.definition.args.args]
        returns = self.definition.returns
        result = "" if returns is None else f" -> {ast.unparse(returns)}"
        return f"{self.name}({', '.join(shown)}){result}"

    @property
    def graph(self) -> Any:
        """The function as a graph of TorchScript's nodes; passes change what it does."""
        if self.own_graph is None:
            graphs = import_module("..graphs.following", __package__)
            graphs.build_function_graph(self, self.owner)
        return self.own_graph

    @property
    def inlined_graph(self) -> Any:
        """The same with the nodes of called functions in the place of calls."""
        return import_module("..graphs.following", __package__).build_function_graph(
            self, self.owner, inlines=True)

    @property
    def owner(self) -> str | None:
        """The class that the function is a method of, or None."""
        owner = self.qualified_name.rpartition(".")[0]
        known = self.program.find_known(owner)
        return owner if isinstance(known, ClassType) else None

    @property
    def code(self) -> str:
        """The function's source, without the annotation of `self`."""
        self.follow()
        lines, node = self.program.lines(self.filename), self.definition
        signature = lines[node.lineno - 1 : node.body[0].lineno - 1]
        body = lines[node.body[0].lineno - 1 : node.end_lineno]
        margin = " " * node.col_offset
        first = signature[0].removeprefix(margin) if signature else ""
        arguments = node.args.args
        if margin and arguments and arguments[0].annotation is not None:
            first = first.replace(f": {ast.unparse(arguments[0].annotation)}", "", 1)
        return "".join([first, *signature[1:], *(s.removeprefix(margin) for s in body)]) \
            .rstrip() + "\n"

    def __deepcopy__(self, memo: Any) -> Function:
        return self

    def __repr__(self) -> str:
        return f"<torch.jit.ScriptFunction {self.qualified_name}>"


class ClassType:
    """A class and its declarations. `python` is the matching Python class, if any."""

    def __init__(self, program: Program, qualified_name: str, kind: str) -> None:
        self.program, self.qualified_name, self.kind = program, qualified_name, kind
        self.name = qualified_name.rpartition(".")[2]
        self.attributes: dict[str, ast.expr] = {}
        self.constants: dict[str, Any] = {}
        self.methods: dict[str, Function] = {}
        self.parameters: frozenset[str] = frozenset()
        self.buffers: frozenset[str] = frozenset()
        self.pre_hooks: list[str] = []  # methods to run when Python calls the module
        self.hooks: list[str] = []
        self.python: Any = None

    def new(self) -> Any:
        """Create an object without attributes."""
        if self.kind == "module":
            return LoadedModule(self)
        if self.kind != "object":
            raise RuntimeError(f"{self.qualified_name} is no class of objects")
        return ScriptObject(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.python is not None:
            return self.python(*args, **kwargs)
        result = self.new()
        self.methods["__init__"](result, *args, **kwargs)
        return result

    def is_type_of(self, value: Any) -> bool:
        """Return whether a value is an instance of this class."""
        if self.python is not None:
            return isinstance(value, self.python)
        if self.kind == "interface":
            methods = getattr(value, "_flambeau_type", self).methods
            return value is not None and all(m in methods for m in self.methods)
        return getattr(value, "_flambeau_type", None) is self

    def __deepcopy__(self, memo: Any) -> ClassType:
        return self


_KINDS = {"Module": "module", "NamedTuple": "named tuple", "Enum": "enum",
          "Interface": "interface", "ModuleInterface": "interface", "object": "object"}


def define_class(program: Program, qualified_name: str, node: ast.ClassDef,
                 filename: str) -> ClassType:
    """Create the class that a statement defines. Its methods are translated on first call."""
    bases = [ast.unparse(b) for b in node.bases] or ["object"]
    kind = _KINDS.get(bases[0])
    if len(bases) != 1 or kind is None or node.decorator_list or node.keywords:
        raise ScriptSyntaxError(f"{filename}, line {node.lineno}: a class with base {bases}")
    result = ClassType(program, qualified_name, kind)
    for statement in node.body:
        _declare(program, result, statement, filename)
    if kind == "named tuple":
        result.python = _create_named_tuple(result)
    elif kind == "enum":
        make: Any = enum.Enum
        result.python = make(result.name, list(result.constants.items()))
    return result


def _declare(program: Program, owner: ClassType, node: ast.stmt, filename: str) -> None:
    if isinstance(node, ast.FunctionDef):
        owner.methods[node.name] = Function(
            program, f"{owner.qualified_name}.{node.name}", node, filename)
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        owner.attributes[node.target.id] = node.annotation
        if node.value is not None:
            owner.constants[node.target.id] = program.evaluate(node.value, filename)
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Subscript):
        owner.attributes[_unparse(node.target.slice)] = node.annotation
    elif isinstance(node, ast.Assign):
        _declare_names(program, owner, node, filename)
    elif not isinstance(node, (ast.Pass, ast.Expr)):
        raise ScriptSyntaxError(
            f"{filename}, line {node.lineno}: {type(node).__name__} in the body of a class")


def _declare_names(program: Program, owner: ClassType, node: ast.Assign, filename: str) -> None:
    """Declare `__parameters__ = [...]` etc., a quoted attribute, or an Enum member."""
    (target,) = node.targets
    if isinstance(target, ast.Subscript):  # __annotations__["0"] = a type
        owner.attributes[_unparse(target.slice)] = node.value
        return
    name = target.id if isinstance(target, ast.Name) else ""
    if name in ("__parameters__", "__buffers__"):
        names = frozenset(_unparse(e) for e in getattr(node.value, "elts", ()))
        setattr(owner, name.strip("_"), names)
    elif name in ("__forward_pre_hooks__", "__forward_hooks__"):
        hooks = [_unparse(e) for e in getattr(node.value, "elts", ())]
        setattr(owner, name.strip("_").removeprefix("forward_"), hooks)
    elif name != "__annotations__":
        owner.constants[name] = program.evaluate(node.value, filename)


def _unparse(node: ast.expr) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise ScriptSyntaxError(f"line {node.lineno}: a name in quotes was expected")
    return node.value


def _create_named_tuple(owner: ClassType) -> Any:
    """Create a NamedTuple class from checked names: namedtuple generates code from them."""
    for name in (owner.name, *owner.attributes):
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            raise ScriptSyntaxError(f"{name!r} is no name of a field")
    defaults = [owner.constants[n] for n in owner.attributes if n in owner.constants]
    return collections.namedtuple(owner.name, list(owner.attributes), defaults=defaults)
