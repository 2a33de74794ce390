"""Types of names, attributes and calls."""

from __future__ import annotations

import ast
import enum
import inspect
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ...nn.module import Module
from ...tensor.tensor import Tensor
from ..torchscript.script_module import ScriptMethod, ScriptModule
from .annotations import find_class_kind
from .container_calls import ContainerCalls
from .diagnostics import FrontendError
from .operator_calls import check_operator
from .source import is_library
from .types import (
    BOOL, DEVICE, FLOAT, INT, NONE, NUMBERS, STR, TENSOR, UNKNOWN, Kind, fits, is_known, make_list,
    make_dict, make_optional,
)
from .values import NO_VALUE, Value

__all__ = ["Calls"]

_TENSOR_ATTRIBUTES = {
    "shape": make_list(INT), "dtype": INT, "device": DEVICE, "ndim": INT, "requires_grad": BOOL,
    "is_cuda": BOOL, "is_sparse": BOOL, "T": TENSOR, "data": TENSOR, "grad": make_optional(TENSOR),
}
_TENSOR_METHODS = {
    "dim": INT, "numel": INT, "nelement": INT, "ndimension": INT, "is_floating_point": BOOL,
    **dict.fromkeys(("add", "sub", "mul", "div", "relu", "sigmoid", "tanh", "exp", "sin", "cos",
                     "view", "reshape", "permute", "transpose", "t", "contiguous", "clone",
                     "detach", "unsqueeze", "squeeze", "flatten", "neg", "abs", "sqrt", "mean"),
                    TENSOR),
}
_BUILTINS = {len: INT, int: INT, float: FLOAT, bool: BOOL, str: STR, isinstance: BOOL,
             hasattr: BOOL, ord: INT, chr: STR, print: NONE, range: Kind("range")}
_OF_TENSORS = ("ones", "zeros", "rand", "randn", "tensor", "full", "cat", "stack", "relu", "mm",
               "matmul", "zeros_like", "ones_like", "rand_like", "neg", "sigmoid", "tanh")
_PYTHON = {"int": int, "float": float, "bool": bool, "str": str, "List": list, "Dict": dict}


class Calls(ContainerCalls):
    """Finds the types of names, attributes and calls."""

    outer: dict[str, Any]
    assigned: dict[str, int]  # names that the function sets, and the line where it does first

    def _name(self, node: ast.Name) -> Value:
        variable = self.frame.find(node.id)
        if variable is not None:
            if variable.error is not None:
                code, values = variable.error
                self.errors.report(code, node, **values)
            return Value(variable.kind, variable.static)
        if self.assigned.get(node.id, node.lineno) < node.lineno:
            return Value()  # it was set in a block that may have run
        if node.id not in self.outer:
            self.errors.report("undefined", node, name=node.id)
            return Value()
        return Value(UNKNOWN, self.outer[node.id])

    # ---------------------------------------------------------------------------- attributes

    def _attribute(self, node: ast.Attribute) -> Value:
        owner = self.value(node.value)
        if isinstance(owner.static, Module) and owner.kind == UNKNOWN:
            return self._read_module_attribute(owner.static, node)
        if isinstance(owner.static, type) and issubclass(owner.static, enum.Enum):
            return self._read_enum_attribute(owner.static, node)
        if isinstance(owner.static, ModuleType):
            static = inspect.getattr_static(owner.static, node.attr, NO_VALUE)
            if static is NO_VALUE and hasattr(owner.static, node.attr):
                static = getattr(owner.static, node.attr)
            return Value(UNKNOWN, static)
        if isinstance(owner.static, type):
            static = inspect.getattr_static(owner.static, node.attr, NO_VALUE)
            return Value(UNKNOWN, static.__func__ if isinstance(static, staticmethod) else NO_VALUE)
        return Value(self._read_kind_attribute(owner.kind, node))

    def _read_module_attribute(self, module: Module, node: ast.Attribute) -> Value:
        if node.attr in getattr(module, "__jit_ignored_attributes__", ()):
            self.errors.report("module-attribute", node, kind=type(module).__name__,
                               name=node.attr, hint="(This attribute was ignored during "
                               "compilation)")
            return Value()
        kind, static = self.program.attribute(module, node.attr, self.errors, node)
        return Value(kind, static)

    def _read_enum_attribute(self, kind: type[enum.Enum], node: ast.Attribute) -> Value:
        if not hasattr(kind, node.attr):
            self.errors.report("enum-member", node, kind=kind.__name__, name=node.attr)
        return Value(find_class_kind(kind) if node.attr in kind.__members__ else UNKNOWN)

    def _read_kind_attribute(self, kind: Kind, node: ast.Attribute) -> Kind:
        """Return the type of an object's attribute, and refuse attributes that it lacks."""
        if kind == TENSOR:
            has, result = hasattr(Tensor, node.attr), _TENSOR_ATTRIBUTES.get(node.attr, UNKNOWN)
        elif kind.name in _PYTHON and is_known(kind):
            has, result = hasattr(_PYTHON[kind.name], node.attr), UNKNOWN
        elif kind.name == "Union" and NONE in kind.inner and is_known(kind):
            has, result = False, UNKNOWN
        elif isinstance(kind.python, type):
            has, result = self.program.find_class_attribute(kind.python, node.attr)
        else:
            return UNKNOWN
        if not has:
            hint = self.program.describe_class_attribute(kind.python, node.attr)
            self.errors.report("attribute", node, kind=kind, name=node.attr, hint=hint)
        return result

    # ---------------------------------------------------------------------------- calls

    def _call(self, node: ast.Call, expected: Kind = UNKNOWN) -> Value:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        function = self.value(node.func)
        if function.static is dict and expected.name == "Union":
            self._refuse_dict_of_union(node, expected)
        special = self._check_special(node, function.static)
        if special is not None:
            return Value(special)
        args = [self.value(arg).kind for arg in node.args]
        keywords = {k.arg: self.value(k.value).kind for k in node.keywords if k.arg is not None}
        if any(isinstance(arg, ast.Starred) for arg in node.args):
            return Value()
        self._check_operator(node, function.static, args, keywords)
        if function.static is NO_VALUE:
            if args == [] and isinstance(node.func, ast.Attribute) and node.func.attr == "tolist":
                return Value(self._convert_to_list(node, node.func, expected))
            return Value(self._call_kind(node, function.kind, args))
        if name and isinstance(function.static, ScriptModule) and function.kind == UNKNOWN \
                and self.frame.find(name) is None \
                and not getattr(function.static, "_flambeau_is_function", False):
            self.errors.report("script-module", node)
        return Value(self._call_static(node, function.static, args, keywords))

    def _check_operator(self, node: ast.Call, function: Any, args: list[Kind],
                        keywords: dict[str, Kind]) -> None:
        """Refuse a call of `torch.name` or of a tensor's method that fits no overload."""
        if not isinstance(node.func, ast.Attribute):
            return
        owner = self.quiet(node.func.value)
        if owner.kind == TENSOR and function is NO_VALUE:
            check_operator(node.func.attr, [TENSOR, *args], keywords, self.errors, node)
        elif isinstance(owner.static, ModuleType) and is_library(function) \
                and owner.static.__name__ in ("torch", "flambeau"):
            check_operator(node.func.attr, args, keywords, self.errors, node)

    def _call_static(self, node: ast.Call, function: Any, args: list[Kind],
                     keywords: dict[str, Kind]) -> Kind:
        """Return the type of a call of a known function, class or module."""
        if isinstance(function, (MethodType, ScriptMethod)) and isinstance(
                function.__self__, Module):
            if is_library(function.__func__):
                return UNKNOWN
            return self._check_call(node, function, args, keywords)
        if isinstance(function, Module):
            result = self._call_static(
                node, MethodType(type(function).forward, function), args, keywords)
            return UNKNOWN if function._forward_hooks else result
        if hasattr(function, "_flambeau_function"):
            function = function._flambeau_function
        if isinstance(function, FunctionType):
            if not is_library(function):
                return self._check_call(node, function, args, keywords)
            return TENSOR if function.__name__ in _OF_TENSORS else UNKNOWN
        if isinstance(function, type):
            return self._check_construction(node, function, args, keywords)
        is_torch = isinstance(function, BuiltinFunctionType) or hasattr(function, "operator")
        for actual in args if is_torch else ():
            if actual.name == "Union" and NONE not in actual.inner and is_known(actual):
                name = getattr(function, "__name__", "")
                self.errors.report("arguments", node.func, operator=f"aten::{name}", name="self",
                                   expected=TENSOR, actual=actual)
        return TENSOR if is_torch and getattr(function, "__name__", "") in _OF_TENSORS else UNKNOWN

    def _check_call(self, node: ast.Call, function: Any, args: list[Kind],
                    keywords: dict[str, Kind]) -> Kind:
        result: Kind = self.program.call(function, args, keywords, self.errors, node)
        return result

    def _check_construction(self, node: ast.Call, kind: type, args: list[Kind],
                            keywords: dict[str, Kind]) -> Kind:
        if getattr(kind, "_torchscript_modifier", "") == "ignore" and not self.errors.muted:
            self.errors.report_syntax(
                FrontendError, f"Cannot instantiate class '{kind.__name__}' in a script function",
                node.func)
        if issubclass(kind, BaseException):
            self.errors.report("exception-value", node)
        result = find_class_kind(kind)
        if result.python is None or issubclass(kind, enum.Enum):
            return UNKNOWN
        self.program.construct(kind, args, keywords, self.errors, node)
        return result

    def _call_kind(self, node: ast.Call, kind: Kind, args: list[Kind]) -> Kind:
        """Return the type of a call of a method, or refuse to call a value."""
        if kind in (*NUMBERS, STR, TENSOR) or kind.name in ("List", "Dict") and is_known(kind):
            self.errors.report("call", node.func, kind=kind)
        if not isinstance(node.func, ast.Attribute):
            return UNKNOWN
        owner, method = self.quiet(node.func.value).kind, node.func.attr
        if owner.name == "List" and method == "append" and len(args) == 1:
            self._check_element(node, owner.inner[0], args[0])
            return NONE
        if owner == TENSOR:
            if method == "__getitem__" and len(args) != 1:
                self.errors.report("special-arguments", node.func, actual=len(args))
            if method == "size":
                return INT if args else make_list(INT)
            return _TENSOR_METHODS.get(method, UNKNOWN)
        if owner.name == "Dict" and is_known(owner) and method == "get" and len(args) == 1:
            return make_optional(owner.inner[1])
        if owner.name == "Dict" and is_known(owner) and method in ("keys", "values"):
            return make_list(owner.inner[method == "values"])
        return self.program.find_method_result(owner.python, method) if owner.python else UNKNOWN

    def _check_element(self, node: ast.Call, element: Kind, actual: Kind) -> None:
        if is_known(element) and is_known(actual) and not fits(actual, element):
            self.errors.report(
                "element", node.func, method="append", expected=element, actual=actual)

    def _check_special(self, node: ast.Call, function: Any) -> Kind | None:
        """Return the type of a call with rules of its own, or None."""
        name = getattr(function, "__name__", "")
        module = getattr(function, "__module__", "") or ""
        if function is slice and node.keywords:
            self.errors.report("slice-keyword", node)
        if function in (hasattr, getattr) and len(node.args) > 1:
            return self._look(node, function)
        if name == "annotate" and module == "flambeau.jit" and len(node.args) == 2:
            kind = self.evaluated(node.args[0])
            self.value(node.args[1], kind)
            return kind
        if name == "fork" and module == "flambeau.jit" and node.args:
            return self._check_fork(node)
        if name == "isinstance":
            self.value(node.args[0])
            self.evaluated(node.args[1])
            return BOOL
        if function is super:
            return UNKNOWN
        if isinstance(function, (type, BuiltinFunctionType)) and function in _BUILTINS:
            for arg in (*node.args, *(k.value for k in node.keywords)):
                self.value(arg)
            return _BUILTINS[function]
        if function is tuple:
            return self._tuple_call(node)
        if function is dict:
            for arg in (*node.args, *(k.value for k in node.keywords)):
                self.value(arg)
            return make_dict(UNKNOWN, UNKNOWN)
        return None

    def _look(self, node: ast.Call, function: Any) -> Kind:
        owner, name = self.value(node.args[0]), node.args[1]
        if function is hasattr:
            if not isinstance(name, ast.Constant):
                self.errors.report("hasattr", name)
            return BOOL
        if owner.kind.name == "Tuple" and owner.kind.python is None:
            self.errors.report("getattr-tuple", node)
        return UNKNOWN

    def _check_fork(self, node: ast.Call) -> Kind:
        """Return the future of a forked call."""
        function = self.value(node.args[0])
        if function.kind in (*NUMBERS, STR, TENSOR):
            self.errors.report("call", node, kind=function.kind)
        args = [self.value(arg).kind for arg in node.args[1:]]
        keywords = {k.arg: self.value(k.value).kind for k in node.keywords if k.arg is not None}
        if function.static is NO_VALUE:
            return Kind("Future", (UNKNOWN,))
        self.errors.muted += 1
        try:
            result = self._call_static(node, function.static, args, keywords)
        finally:
            self.errors.muted -= 1
        return Kind("Future", (result,))
