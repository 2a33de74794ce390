"""Checks a scripted function or module and all that it calls, each function once."""

from __future__ import annotations

import ast
import builtins
import inspect
import typing
from types import FunctionType, MethodType
from typing import Any

from ...nn.module import Module
from ...tensor.tensor import Tensor
from ..torchscript.script_module import ScriptMethod
from .annotations import find_class_kind, read_annotation, find_value_kind
from .diagnostics import Call, Refusal
from .hooks import check_hooks
from .interfaces import COMPILED, explain_class_mismatch, explain_mismatch
from .script_classes import ScriptClasses
from .signatures import Signature, derive_signature
from .source import Source, is_library, read_source
from .statements import Statements, find_first_assignments
from .syntax import check_syntax
from .types import NONE, UNKNOWN, Kind, fits, is_known, unify
from .values import NO_VALUE, Frame, Variable

__all__ = ["OVERLOADED", "Program", "is_compiled", "read_hints"]

OVERLOADED: set[tuple[str, str]] = set()  # modules and qualified names of overloaded functions


def is_compiled(function: Any) -> bool:
    """Return whether scripting compiles a function: it is not ignored, unused or overloaded."""
    plain = inspect.unwrap(function)
    return getattr(function, "_torchscript_modifier", "") not in ("ignore", "unused") and (
        plain.__module__, plain.__qualname__) not in OVERLOADED


class FunctionCheck(Statements):
    """The check of one function or method."""

    def __init__(self, program: Program, function: Any, source: Source, signature: Signature,
                 errors: Refusal, owner: Any) -> None:
        self.program, self.errors, self.source, self.owner = program, errors, source, owner
        self.frame, self.returned = Frame(), []
        self.outer = _list_outer_names(function)
        self.assigned = find_first_assignments(source.tree.body)
        self.parameters = set(signature.kinds)
        self.annotated_return = signature.returns
        for name, kind in signature.kinds.items():
            self.frame.variables[name] = Variable(kind, kind)
        if owner is not None and source.tree.args.args:
            kind = find_class_kind(owner) if isinstance(owner, type) else UNKNOWN
            self.frame.variables[source.tree.args.args[0].arg] = Variable(
                kind, kind, static=NO_VALUE if isinstance(owner, type) else owner)

    def script_class(self) -> type | None:
        """Return the script class whose method this is, or None."""
        return self.owner if isinstance(self.owner, type) else None

    def evaluated(self, node: ast.expr) -> Kind:
        """Return the type that an annotation or a target of isinstance names."""
        space = {"Tensor": Tensor, **vars(typing), **self.outer}
        try:
            annotation = eval(compile(ast.Expression(node), "<annotation>", "eval"), space)
            if isinstance(annotation, str):
                annotation = eval(annotation, space)
        except Exception:  # a name that only PyTorch's own resolution finds
            return UNKNOWN
        try:
            return read_annotation(annotation)
        except (RuntimeError, ValueError):
            if self.errors.muted:
                return UNKNOWN
            raise

    def run(self) -> Kind:
        """Check the body; return the type that the function returns."""
        tree = self.source.tree
        self.block(tree.body)
        annotated = self.annotated_return
        if not self.frame.exits:
            if annotated is not None and self._must_return(annotated):
                self.errors.report("return-missing", tree)
            self.returned.append(NONE)
        if annotated is not None:
            return annotated
        result = self.returned[0] if self.returned else NONE
        for kind in self.returned[1:]:
            result = unify(result, kind) or UNKNOWN
        return result

    def _must_return(self, annotated: Kind) -> bool:
        """Return whether an end without return is wrong for certain."""
        last = self.source.tree.body[-1]
        return bool(self.returned) and not self.has_unsure_branch and is_known(annotated) \
            and not fits(NONE, annotated) and isinstance(last, (ast.If, ast.Assign))


def _list_outer_names(function: Any) -> dict[str, Any]:
    """Return the names that a function sees from outside; unset ones have no value."""
    names = {**vars(builtins), **function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            names[name] = NO_VALUE
    return names


class Program(ScriptClasses):
    """What a script consists of: functions and methods by owner, with their return types."""

    def __init__(self) -> None:
        super().__init__()
        self._returns: dict[tuple[Any, int], Kind] = {}
        self._methods: dict[int, set[str]] = {}  # names of checked methods by id of the owner
        self._owners: list[Any] = []  # keeps the ids in `_returns` in use

    def check(self, function: Any, owner: Any = None, call: Call | None = None) -> Kind:
        """Check a function or method; return the type that it returns, UNKNOWN if recursive."""
        plain = inspect.unwrap(function)
        key = (getattr(plain, "__code__", None), id(owner))
        if key in self._returns or key[0] is None or not is_compiled(function):
            return self._returns.get(key, UNKNOWN)
        self._returns[key] = UNKNOWN
        self._owners.append(owner)
        self._methods.setdefault(id(owner), set()).add(plain.__name__)
        source = read_source(plain)
        if source is None:
            return UNKNOWN
        errors = Refusal(source, call, _format_scope(plain, owner))
        check_syntax(source.tree, errors)
        signature = derive_signature(plain, source, owner is not None)
        _refuse_mutable_defaults(plain, source, errors)
        check = FunctionCheck(self, plain, source, signature, errors, owner)
        result = self._returns[key] = check.run()
        return result

    def check_module(self, module: Module) -> None:
        """Check the compiled methods of a module and of the modules in it."""
        for inner in module.modules():
            kind: Any = type(inner)
            if is_library(kind) or hasattr(inner, "_flambeau_program"):
                continue
            self._check_attributes(inner)
            for name, method in inspect.getmembers(kind, inspect.isfunction):
                is_exported = getattr(method, "_torchscript_modifier", "") == "export"
                if name == "forward" and method is not Module.forward or is_exported:
                    result = self.check(method, inner)
                    if name == "forward":
                        self._check_hooks(inner, method, result)

        for inner in module.modules():
            inner.__dict__[COMPILED] = frozenset(self._methods.get(id(inner), ()))

    def _check_hooks(self, module: Module, forward: Any, returned: Kind) -> None:
        plain = inspect.unwrap(forward)
        source = read_source(plain)
        if source is not None and (module._forward_hooks or module._forward_pre_hooks):
            check_hooks(module, derive_signature(plain, source, True), returned, self.check)

    def _check_attributes(self, module: Module) -> None:
        """Refuse annotations that name no type, and values that lack an interface's methods."""
        for name, annotation in read_hints(type(module)).items():
            read_annotation(annotation)
            if not hasattr(annotation, "_torchscript_interface") or not hasattr(module, name):
                continue
            if problem := explain_mismatch(getattr(module, name), annotation):
                raise RuntimeError(problem)

    def find_result(self, function: Any) -> Kind:
        """Return the type that a method of a script class returns."""
        return self.check(function, _find_class(function))

    def call(self, function: Any, args: list[Kind], keywords: dict[str, Kind], errors: Refusal,
             node: ast.Call) -> Kind:
        """Check a call of a function, or of a method bound to a module; return its result."""
        is_bound = isinstance(function, (MethodType, ScriptMethod))
        owner = function.__self__ if is_bound else None
        plain = inspect.unwrap(function.__func__ if is_bound else function)
        source = read_source(plain)
        if source is None or (plain.__module__, plain.__qualname__) in OVERLOADED:
            return UNKNOWN
        signature = derive_signature(plain, source, owner is not None)
        signature.check(args, keywords, errors, node)
        _check_interfaces(signature, args, keywords, errors, node)
        if errors.muted:  # a branch that may be left out compiles nothing
            return signature.returns or UNKNOWN
        if not is_compiled(plain):
            return signature.returns or UNKNOWN
        return self.check(plain, owner, Call(errors, node))

    # ------------------------------------------------------------------------ modules

    def attribute(self, module: Module, name: str, errors: Refusal,
                  node: ast.Attribute) -> tuple[Kind, Any]:
        """Return the type of a module's attribute and, if it is fixed, its value."""
        in_class = inspect.getattr_static(type(module), name, NO_VALUE)
        if isinstance(in_class, property) or hasattr(type(module), "__getattr__") and \
                type(module).__getattr__ is not Module.__getattr__ \
                and not isinstance(module, _import_scripted()):
            return UNKNOWN, NO_VALUE
        hints = read_hints(type(module))
        if name in hints:
            return read_annotation(hints[name]), NO_VALUE
        if not hasattr(module, name):
            errors.report("module-attribute", node, kind=type(module).__name__, name=name, hint="")
            return UNKNOWN, NO_VALUE
        value = getattr(module, name)
        if isinstance(value, Module):
            return UNKNOWN, value
        if isinstance(value, FunctionType) and not errors.muted:
            self._check_attribute_function(module, name, value, errors, node)
        if isinstance(value, (FunctionType, MethodType, ScriptMethod, type)) or callable(value):
            if value is object:
                self._refuse_attribute(module, name, value, errors, node)
            return UNKNOWN, value
        kind = find_value_kind(value)
        if type(value) is list and any(isinstance(v, Module) for v in value):
            self._refuse_attribute(module, name, value, errors, node)
        return kind, NO_VALUE

    def _check_attribute_function(self, module: Module, name: str, function: Any, errors: Refusal,
                                  node: ast.Attribute) -> None:
        if is_library(function):
            return
        try:
            self.check(function)
        except Exception as error:
            hint = ("(This function exists as an attribute on the Python module, but we failed to "
                    "compile it to a TorchScript function. \nThe error stack is reproduced here:\n"
                    f"\n{error}) ")
            errors.report("module-attribute", node, kind=type(module).__name__, name=name,
                          hint=hint)

    def _refuse_attribute(self, module: Module, name: str, value: Any, errors: Refusal,
                          node: ast.Attribute) -> None:
        why = ("Could not infer type of list element: Cannot infer concrete type of "
               "torch.nn.Module") if isinstance(value, list) else (
            "Only tensors and (possibly nested) tuples of tensors, lists, or dicts are supported "
            "as inputs or outputs of traced functions")
        hint = ("(This attribute exists on the Python module, but we failed to convert Python "
                f"type: '{type(value).__name__}' to a TorchScript type. {why}. Its type was "
                "inferred; try adding a type annotation for the attribute.)")
        errors.report("module-attribute", node, kind=type(module).__name__, name=name, hint=hint)

    def set_attribute(self, module: Module, target: ast.Attribute, actual: Kind,
                      errors: Refusal) -> None:
        """Refuse to set an attribute that a module lacks or that has another type."""
        if not hasattr(module, target.attr):
            errors.report("attribute-set", target, name=target.attr)
            return
        hints = read_hints(type(module))
        value = getattr(module, target.attr)
        if target.attr not in hints and type(value) in (list, dict) and not value:
            errors.report("attribute-set", target, name=target.attr)  # its type is not known
        expected = read_annotation(hints[target.attr]) if target.attr in hints \
            else find_value_kind(value)
        if is_known(expected) and is_known(actual) and not fits(actual, expected):
            errors.report("attribute-type", target, expected=expected, actual=actual)


def _refuse_mutable_defaults(function: Any, source: Source, errors: Refusal) -> None:
    for name, parameter in inspect.signature(function).parameters.items():
        if isinstance(parameter.default, (list, dict, set)):
            kind = type(parameter.default).__name__
            errors.report("default", source.tree, kind=kind, name=name)


def _check_interfaces(signature: Signature, args: list[Kind], keywords: dict[str, Kind],
                      errors: Refusal, node: ast.Call) -> None:
    """Refuse objects that lack the methods of the interface that a parameter declares."""
    passed = {**dict(zip(signature.kinds, args, strict=False)), **keywords}
    for name, actual in passed.items():
        expected = signature.kinds.get(name, UNKNOWN)
        interface = expected.python
        if not hasattr(interface, "_torchscript_interface") or actual.python in (None, interface):
            continue
        if problem := explain_class_mismatch(actual.python, interface):
            errors.report("argument", node.func, schema=signature, name=name, actual=actual,
                          expected=expected, hint=f"{problem}\n")


def _format_scope(function: Any, owner: Any) -> str:
    """Return a function's name as error texts show it, `Owner.forward` for a method."""
    if owner is None:
        return str(function.__name__)
    kind = owner if isinstance(owner, type) else type(owner)
    return f"{kind.__name__}.{function.__name__}"


def _find_class(method: Any) -> Any:
    """Return the class that defines a method, as a stand-in for its `self`."""
    return getattr(inspect.getmodule(method), method.__qualname__.rpartition(".")[0], object)


def read_hints(kind: type) -> dict[str, Any]:
    """Return the annotations of a user's module class; those of torch.nn's are not types."""
    result: dict[str, Any] = {}
    for base in kind.__mro__[::-1]:
        if base is object or is_library(base):
            continue
        space = vars(inspect.getmodule(base) or builtins)
        for name, annotation in vars(base).get("__annotations__", {}).items():
            try:
                result[name] = eval(annotation, dict(space)) if isinstance(annotation, str) \
                    else annotation
            except Exception:  # a name of a scope that is gone
                result[name] = None.__class__ if annotation is None else Ellipsis
    return result


def _import_scripted() -> Any:
    from ..torchscript.script_module import ScriptModule

    return ScriptModule
