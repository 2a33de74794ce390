"""Translations that a program writes: `custom_translation_table` of torch.onnx.export.

A translation is a function of onnxscript, or a Python function that calls operators of its opsets.
It runs on names of values, and each operator that it calls becomes a node of the model.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from .._higher_order_ops.active_export import keeping
from ..fx.node import Node
from ..tensor.tensor import Tensor
from .graph_builder import GraphBuilder, short
from .own_operators import list_own_operators
from .shared_memory import find_operator_name

__all__ = ["find_translation", "translating"]

# Conversions by operator: those of translations, and of operators that are ONNX's.
_table: ContextVar[Mapping[Any, Callable] | None] = ContextVar("onnx_translations", default=None)


@contextmanager
def translating(table: Mapping[Any, Any] | None, opset: int | None) -> Iterator[None]:
    """Convert the table's operators by its functions, of several the first, which needs onnxscript;
    and those of torch.onnx.ops. A capture keeps their calls as nodes."""
    if table:
        try:
            importlib.import_module("onnxscript")
        except ImportError as error:
            error.add_note("pip install onnxscript")
            raise
    conversions = list_own_operators(opset) | {
        key: _create_conversion(value[0] if isinstance(value, Sequence) else value)
        for key, value in (table or {}).items()}
    token = _table.set(conversions)
    try:
        with keeping(conversions):
            yield
    finally:
        _table.reset(token)


def find_translation(node: Node) -> Callable | None:
    """Return the conversion of a node that the table being used has, or None."""
    for key, conversion in (_table.get() or {}).items():
        name = getattr(key, "_opname", None) if getattr(key, "namespace", "") == "aten" else None
        if node.target is key or name is not None and name == find_operator_name(node):
            return conversion
    return None


def _create_conversion(function: Callable) -> Callable:
    def convert(builder: GraphBuilder, node: Node, *args: Any, **kwargs: Any) -> Any:
        from onnxscript import evaluator

        values = [_name(builder, x) for x in args]
        options = {key: _name(builder, x) for key, x in kwargs.items()}
        with evaluator.default_as(_NodeWriter(builder)):
            result = _run(function, values, options)
        return tuple(x.name for x in result) if isinstance(result, (list, tuple)) else result.name

    return convert


def _run(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run the Python of a function of onnxscript, or a Python function."""
    return getattr(function, "function", function)(*args, **kwargs)


class _Value:
    """A value of the graph: its name, and its dtype's if that is known."""

    def __init__(self, name: str, kind: str | None, write: Callable[..., Any]) -> None:
        self.name, self.kind, self._write = name, kind, write


def _write_operators() -> None:
    """Let Python's operators on values write nodes."""
    for method, kind in (("add", "Add"), ("sub", "Sub"), ("mul", "Mul"), ("truediv", "Div"),
                         ("pow", "Pow"), ("matmul", "MatMul"), ("lt", "Less"), ("gt", "Greater"),
                         ("le", "LessOrEqual"), ("ge", "GreaterOrEqual")):
        setattr(_Value, f"__{method}__",
                lambda self, other, kind=kind: self._write(kind, self, other))
        if method in ("add", "sub", "mul", "truediv", "pow", "matmul"):
            setattr(_Value, f"__r{method}__",
                    lambda self, other, kind=kind: self._write(kind, other, self))
    setattr(_Value, "__neg__", lambda self: self._write("Neg", self))  # noqa: B010


_write_operators()


def _name(builder: GraphBuilder, x: Any) -> Any:
    """Return the value of a node; other arguments stay as they are."""
    if not isinstance(x, Node):
        return x
    value = x.meta.get("val")
    kind = short(value.dtype) if isinstance(value, Tensor) else "int64"
    return _Value(builder.name(x), kind, _NodeWriter(builder).write_default)


class _NodeWriter:
    """An evaluator of onnxscript: the operators that a function calls become nodes."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder

    def eval_function(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Write the nodes of a function that a translation calls."""
        return _run(function, args, kwargs)

    def eval_op(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Write the node of an operator."""
        return self.write(op.op_schema, op.opset.domain, op.opset.version, args, kwargs)

    def write_default(self, kind: str, *args: Any) -> Any:
        """Write a node of ONNX's own operators."""
        import onnx

        return self.write(onnx.defs.get_schema(kind), "", 0, args, {})

    def write(self, schema: Any, domain: str, version: int, args: Sequence[Any],
              kwargs: Mapping[str, Any]) -> Any:
        """Write a node: the schema tells inputs from attributes, and how many results it has."""
        inputs, attributes = _split(schema, args, dict(kwargs))
        types: dict[str, str] = {}
        for formal, x in inputs:
            if isinstance(x, _Value) and x.kind is not None:
                types.setdefault(formal.type_str, x.kind)
        names = [self._name_input(x, types.get(formal.type_str)) for formal, x in inputs]
        while names and not names[-1]:
            names.pop()
        self.builder.opsets[domain] = max(version, self.builder.opsets.get(domain, 0))
        count = attributes.pop("_outputs", len([o for o in schema.outputs if not _may_lack(o)]))
        results = self.builder.op(
            schema.name, *names, outputs=max(count, 1), domain=domain or None, **attributes)
        values = [
            _Value(name, types.get(output.type_str), self.write_default)
            for name, output in zip(results if count > 1 else (results,), schema.outputs,
                                    strict=False)]
        return values[0] if count <= 1 else tuple(values)

    def _name_input(self, x: Any, kind: str | None) -> str:
        if x is None:
            return ""
        if isinstance(x, _Value):
            return x.name
        return self.builder.value(x, kind)


def _may_lack(formal: Any) -> bool:
    return bool(formal.option.name == "Optional")


def _split(schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict]:
    """Return (formal input, value) pairs, and the attributes."""
    formals = list(schema.inputs)
    is_open = bool(formals) and formals[-1].option.name == "Variadic"
    count = len(args) if is_open else min(len(args), len(formals))
    inputs = [(formals[min(i, len(formals) - 1)], x) for i, x in enumerate(args[:count])]
    for formal in formals[count:]:
        inputs.append((formal, kwargs.pop(formal.name, None)))
    attributes = dict(zip(schema.attributes, args[count:], strict=False)) | kwargs
    return inputs, attributes
