"""Convert calls in a Python function to TorchScript, depending on the callee."""

from __future__ import annotations

import ast
import enum
import math
import types
import typing
from typing import Any

from ....export.aten_functions import number_of_dtype
from ....fx.qualified_names import qualified_name
from ....nn.module import Module
from ....tensor.devices import device
from ....tensor.dtypes import (
    bfloat16, bool_, dtype, float16, float32, float64, int8, int16, int32, int64, uint8,
)
from .annotations import is_named_tuple, is_written_class
from .embedded import is_traced
from .functional_library import list_signatures
from .source_expressions import is_module_method
from .source_loops import SourceLoops
from .static_values import Static

__all__ = ["SourceCalls"]

_PYTHON_ONLY = ("ignore",)
_BUILTINS = frozenset("""
    len range int float bool str complex print min max abs sum all any round sorted zip enumerate
    ord chr hex oct bin divmod isinstance list tuple dict reversed
""".split())

_CHANGES = frozenset("""
    append extend insert pop remove clear sort reverse update setdefault popitem add discard
""".split())

# Functions of nn.functional that archives cannot express.
_ONLY_IN_PYTHON = frozenset("""
    fractional_max_pool2d fractional_max_pool3d lp_pool3d triplet_margin_with_distance_loss
    multi_head_attention_forward grouped_mm scaled_grouped_mm scaled_mm linear_cross_entropy
    fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices
""".split())
_OF_ANY_RANK = ("interpolate", "upsample", "upsample_nearest", "upsample_bilinear")
_CASTS = {"float": float32, "double": float64, "half": float16, "bfloat16": bfloat16,
          "int": int32, "long": int64, "short": int16, "char": int8, "byte": uint8, "bool": bool_}


class SourceCalls(SourceLoops):
    """Converts calls of modules, methods, operators, functions and types."""

    def visit_Call(self, node: ast.Call) -> Any:
        """Convert a call by its callee: module, method, operator or function."""
        function = self.scope.find(node.func)
        if getattr(function and function.value, "_torchscript_modifier", "") in _PYTHON_ONLY:
            self.refuse(node, "a call of a function that stays Python (jit.ignore)")
        inherited = self._write_super_call(node)
        if inherited is not None:
            return inherited
        known = self.scope.find(node)
        if known is not None and not isinstance(known.value, (range, Module)):
            return self._write_known(node, known)
        if function is None:
            return self._write_method(node)
        value = function.value
        if is_traced(value) and function.text is None:
            return self._apply(self.unit.embedded.function(value), node)
        if isinstance(value, Module):
            self.unit.call_module(value)
            hooked = self.unit.write_hooked_call(value)
            if hooked is None:
                return self._apply(f"({function.text}).forward", node)
            call = self._apply(hooked, node)
            call.args.insert(0, ast.parse(function.text or "self", mode="eval").body)
            return call
        if is_module_method(value):
            return self._apply(self.write_module_method(node.func, value), node)
        if isinstance(value, types.MethodType) and is_written_class(type(value.__self__)):
            self._change_object(node)
            return self._write_method(node)
        return self._write_global(node, value)

    def _change_object(self, node: ast.Call) -> None:
        """Mark a module's object as run-time state, since its methods may change it."""
        holder = node.func.value  # type: ignore[attr-defined]
        owner = self.scope.find(holder.value) if isinstance(holder, ast.Attribute) else None
        if owner is None or not isinstance(owner.value, Module):
            self.refuse(node, "a method of an object outside the function")
        self.unit.state.change(owner.value, holder.attr)

    def _write_super_call(self, node: ast.Call) -> ast.expr | None:
        """Write `super().name(...)`, or return None for other calls."""
        called = node.func
        if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Call) \
                or not isinstance(called.value.func, ast.Name) or called.value.func.id != "super":
            return None
        owner = self.script_class or self.owner
        after = self.scope.closure.get("__class__")
        if called.value.args:
            known = self.scope.find(called.value.args[0])
            after = None if known is None else known.value
        if owner is None or not isinstance(after, type):
            self.refuse(node, "a super() outside a method")
        if not hasattr(super(after, owner if isinstance(owner, type) else type(owner)),
                       called.attr) or called.attr == "__init__" and after.__bases__ == (object,):
            return ast.Constant(None)
        base: Any = type(owner)
        if isinstance(owner, Module):
            order = base.__mro__[base.__mro__.index(after) + 1:]
            provider = next(k for k in order if called.attr in vars(k))
            if provider.__module__.startswith("flambeau.nn"):
                self.refuse(node, f"super().{called.attr} of torch.nn's {provider.__name__}: hold "
                                  "that layer as a submodule")
        name = self.unit.call_super(owner, after, called.attr)
        return self._apply(f"({self.tree.args.args[0].arg}).{name}", node)

    def _write_global(self, node: ast.Call, value: Any) -> Any:
        name = getattr(value, "__name__", "")
        module = getattr(value, "__module__", None) or ""
        if name == "isinstance" and (module == "builtins" or module.endswith(".jit")):
            return self._write_type_test(node)
        if module == "builtins" and name in _BUILTINS:
            return self._apply(name, node)
        if getattr(math, name, None) is value:
            return self._apply(f"torch.{name}", node)
        if value is device:
            return self._apply("torch.device", node)
        if name == "annotate" and module.endswith(".jit"):
            written = ast.parse(self.write_type(node, node.args[0]), mode="eval").body
            return ast.Call(ast.Name("annotate"), [written, self.visit(node.args[1])], [])
        if name.startswith("_awaitable") and module.endswith(".jit"):
            return self._write_awaited(node, name)
        if is_named_tuple(value):
            return self._write_named_tuple(node, value)
        if isinstance(value, type) and issubclass(value, enum.Enum):
            self.refuse(node, f"a {value.__name__} looked up by its value")
        if is_written_class(value):
            return self._apply(self.unit.declare(value), node)
        wrapped = getattr(value, "__wrapped__", value)
        path = qualified_name(value) if callable(value) and not isinstance(value, type) else ""
        if path.startswith("torch."):
            return self._write_operator(node, path)
        if isinstance(wrapped, types.FunctionType):
            return self._apply(self.unit.call_function(wrapped), node)
        self.refuse(node, f"a call of {name or value}")

    def _write_type_test(self, node: ast.Call) -> ast.expr:
        """Write isinstance; for several types, one test after the other."""
        tests: list[ast.expr] = [ast.Call(ast.Name("isinstance"), [
            self.visit(node.args[0]), ast.parse(self._type(kind), mode="eval").body], [])
            for kind in _list_types(self, node.args[1])]
        if len(tests) > 1 and not isinstance(node.args[0], ast.Name):
            self.refuse(node, "isinstance of an expression with several types")
        return tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests)

    def _write_awaited(self, node: ast.Call, name: str) -> Any:
        """Write a delayed call as a plain one, which gives the same result earlier."""
        if name == "_awaitable":
            return self.visit(ast.Call(node.args[0], node.args[1:], node.keywords))
        return self.visit(node.args[0])

    def _write_named_tuple(self, node: ast.Call, kind: Any) -> Any:
        """Write a named tuple with all its fields, in order."""
        call = self._apply(self.unit.declare(kind), node)
        values = dict(zip(kind._fields, call.args, strict=False))
        values |= {str(keyword.arg): keyword.value for keyword in call.keywords}
        for name, default in kind._field_defaults.items():
            if name not in values:
                values[name] = self._write_known(node, Static(default))
        if set(values) != set(kind._fields) or len(call.args) > len(kind._fields):
            self.refuse(node, f"a {kind.__name__} of other fields than its own")
        return ast.Call(call.func, [values[name] for name in kind._fields], [])

    def _write_operator(self, node: ast.Call, path: str) -> Any:
        name = path.rpartition(".")[2]
        if path.startswith("torch.nn.functional.") and name in list_signatures():
            return self._write_functional(node, name)
        if path.startswith("torch.nn.functional.") and name in _ONLY_IN_PYTHON:
            self.refuse(node, f"a call of {name}")
        if name == "einsum" and len(node.args) > 1:  # aten takes a list
            equation, *operands = node.args
            if len(operands) > 1 or not isinstance(operands[0], (ast.List, ast.Tuple)):
                node = ast.Call(node.func, [equation, ast.List(operands)], node.keywords)
        if path.startswith("torch.Tensor."):
            return self._apply(f"torch.{name}", node)
        prefix = next((p for p in ("linalg_", "fft_", "special_")
                       if f".{p[:-1]}." in path and not name.startswith(p)), "")
        return self._apply(f"torch.{prefix}{name}", node)

    def _write_functional(self, node: ast.Call, name: str) -> Any:
        """Write a call of an nn.functional function, expanding scalars to lists."""
        arguments = list_signatures()[name].args
        names = [a.arg for a in arguments]
        passed = dict(zip(names, node.args, strict=False))
        passed |= {str(k.arg): k.value for k in node.keywords}
        name = self._choose(node, name, passed)
        call = self._apply(f"__torch__.torch.nn.functional.{name}", node)
        kinds = {a.arg: ast.unparse(a.annotation) for a in arguments if a.annotation is not None}
        unknown = [k.arg for k in call.keywords if k.arg not in kinds]
        if unknown:
            self.refuse(node, f"the argument {unknown[0]} of {name}")
        count = int(name[-2]) if name[-2:] in ("1d", "2d", "3d") else \
            int(name[-15]) if name.endswith("d_with_indices") else \
            3 if name in _OF_ANY_RANK else 2

        def spread(value: ast.expr, kind: str) -> ast.expr:
            if kind == "float" and isinstance(value, ast.Constant) and type(value.value) is int:
                return ast.Constant(float(value.value))
            if "List" not in kind or not isinstance(value, ast.Constant) or value.value is None:
                return value
            number: Any = value.value
            plain: ast.expr = ast.Constant(float(number) if "float" in kind else number)
            return ast.List([plain] * count)

        call.args = [spread(v, k) for v, k in zip(call.args, kinds.values(), strict=False)]
        for keyword in call.keywords:
            keyword.value = spread(keyword.value, kinds[str(keyword.arg)])
        self._apply_legacy_reduction(node, call, passed)
        return call

    def _choose(self, node: ast.Call, name: str, passed: dict[str, ast.expr]) -> str:
        """Return the function to call: the variant that returns indices, if requested."""
        for setting in ("return_indices", "max_norm", "return_attn_probs"):
            if setting not in passed:
                continue
            known = self.scope.find(passed[setting])
            if known is None:
                self.refuse(node, f"{setting} of {name}, known only at run time")
            if known.value and setting == "return_indices":
                return f"{name}_with_indices"
            if known.value:
                self.refuse(node, f"{setting} of {name}")
        return name

    def _apply_legacy_reduction(self, node: ast.Call, call: ast.Call,
                                passed: dict[str, ast.expr]) -> None:
        """Replace `size_average` and `reduce` by the equivalent reduction."""
        old = {n: self.scope.find(passed[n]) for n in ("size_average", "reduce") if n in passed}
        if any(value is None for value in old.values()):
            self.refuse(node, "size_average or reduce, known only at run time: pass reduction")
        values = {n: value.value for n, value in old.items() if value is not None}
        if all(value is None for value in values.values()):
            return
        if values.get("reduce") is False:
            reduction = "none"
        else:
            reduction = "sum" if values.get("size_average") is False else "mean"
        if len(call.args) > 2 and not call.keywords:
            self.refuse(node, "size_average or reduce by position: pass reduction")
        call.keywords = [k for k in call.keywords if k.arg != "reduction"]
        call.keywords.append(ast.keyword("reduction", ast.Constant(reduction)))

    def _write_method(self, node: ast.Call) -> Any:
        """Write a method call on a run-time value, as an operator call."""
        method: Any = node.func
        if isinstance(method, ast.Name):  # an object of a script class
            return self._apply_to(ast.Attribute(self.visit(method), "__call__"), node)
        if not isinstance(method, ast.Attribute):
            self.refuse(node, "a call of a value")
        if method.attr in ("view", "type") and len(node.args) == 1:
            kind = self.scope.find(node.args[0])  # as a number, a dtype would be a size
            if kind is not None and isinstance(kind.value, dtype):
                name = {"view": "view", "type": "to"}[method.attr]
                method, node = ast.Attribute(method.value, name), ast.Call(
                    method, [], [ast.keyword("dtype", node.args[0])])
        if method.attr in _CASTS and not node.args and not node.keywords:
            number = ast.Constant(number_of_dtype(_CASTS[method.attr]))
            return ast.Call(ast.Attribute(self.visit(method.value), "to"), [],
                            [ast.keyword("dtype", number)])
        self._check_global(method)
        return self._apply_to(ast.Attribute(self.visit(method.value), method.attr), node)

    def _check_global(self, method: ast.Attribute) -> None:
        """Refuse calls that mutate an outer list or dict, which is a constant in the archive."""
        owner = self.scope.find(method.value)
        if owner is not None and owner.text is None and method.attr in _CHANGES \
                and isinstance(owner.value, (list, dict, set)):
            self.refuse(method, f"a change of a {type(owner.value).__name__} outside the function")

    def _apply(self, function: str, node: ast.Call) -> Any:
        return self._apply_to(ast.parse(function, mode="eval").body, node)

    def _apply_to(self, function: ast.expr, node: ast.Call) -> ast.Call:
        if any(isinstance(a, ast.Starred) for a in node.args) or \
                any(k.arg is None for k in node.keywords):
            self.refuse(node, "a call with unpacked arguments")
        return ast.Call(function, [self.visit(a) for a in node.args],
                        [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords])


def _list_types(writer: SourceCalls, node: ast.expr) -> list[Any]:
    """Return the types in the second argument of isinstance."""
    if isinstance(node, ast.Tuple):
        return [kind for part in node.elts for kind in _list_types(writer, part)]
    known = writer.scope.find(node)
    value = writer.evaluated(node, node) if known is None else known.value
    if isinstance(value, tuple):
        return list(value)
    return list(typing.get_args(value)) if typing.get_origin(value) in (
        typing.Union, types.UnionType) else [value]
