"""Write an exported program as the JSON of PyTorch's `.pt2` files.

The graph calls aten overloads by name. PyTorch's `torch.export.load` can read it.
"""

from __future__ import annotations

import inspect
import math
import operator
import re
from typing import Any

from ...fx.graph import Graph
from ...fx.node import Node
from ...ops.core import aten
from ...ops.registration.aten_schemas import find_overload, get_schemas
from ...ops.registration.schema import Schema
from ...tensor.devices import device
from ...tensor.dtypes import (
    bfloat16, bool_, dtype, float16, float32, float64, int8, int16, int32, int64, uint8,
)
from ...tensor.layout import layout, memory_format
from ...tensor.tensor import Tensor
from ...utils import _pytree as pytree
from ..graph_signature import ConstantArgument, InputKind, SymIntArgument
from ..symbolic.expressions import INFINITE
from ..symbolic.sizes import SymbolicSize, get_first_value
from .reading import DTYPES

__all__ = ["Unwritable", "describe_tensor", "write_document"]

_NUMBERS = {name: n for n, name in DTYPES.items()}
_MEMORY_FORMATS = {"contiguous_format": 1, "channels_last": 2, "channels_last_3d": 3,
                   "preserve_format": 4}
# Conversion methods, written as aten's `to`.
_CASTS = {"bool": bool_, "bfloat16": bfloat16, "byte": uint8, "char": int8, "double": float64,
          "float": float32, "half": float16, "int": int32, "long": int64, "short": int16}
_PYTHON = frozenset(("add", "sub", "mul", "floordiv", "mod", "truediv", "neg", "pow", "eq", "ne",
                     "lt", "le", "gt", "ge"))


class Unwritable(Exception):
    """Raised for a part of the program that PyTorch's format cannot express."""


def write_document(program: Any) -> dict[str, Any]:
    """Return the program in PyTorch's schema 8.20. Raise Unwritable for a non-aten call."""
    module = program.graph_module
    graph = _GraphWriter(module, program._table).write()
    specs = program.graph_signature
    nodes = {n.name: n for n in program.graph.nodes}
    return {
        "graph_module": {
            "graph": graph,
            "signature": {"input_specs": [_describe_input(s, nodes) for s in specs.input_specs],
                          "output_specs": [{"user_output": {"arg": argument}}
                                           for argument in graph["outputs"]]},
            "module_call_graph": [{"fqn": "", "signature": {
                "inputs": [], "outputs": [], "in_spec": pytree.treespec_dumps(program._in_spec),
                "out_spec": pytree.treespec_dumps(program._out_spec),
                "forward_arg_names": list(program._names)}}],
            "metadata": {}, "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": 10}, "range_constraints": _describe_ranges(program),
        "schema_version": {"major": 8, "minor": 20}, "verifiers": ["TRAINING"],
        "torch_version": "2.13.0", "guards_code": [],
    }


def _describe_ranges(program: Any) -> dict[str, Any]:
    """Return the range of each size symbol, by name."""
    symbols = {} if program._table is None else program._table.symbols
    return {s.name: {"min_val": None if s.low <= -INFINITE else s.low,
                     "max_val": None if s.high >= INFINITE else s.high}
            for s in symbols.values() if s.name.isidentifier()}


def _describe_input(spec: Any, nodes: dict[str, Node]) -> dict[str, Any]:
    name = {"name": spec.arg.name}
    if spec.kind is InputKind.PARAMETER:
        return {"parameter": {"arg": name, "parameter_name": spec.target}}
    if spec.kind is InputKind.BUFFER:
        return {"buffer": {"arg": name, "buffer_name": spec.target,
                           "persistent": spec.persistent is not False}}
    if spec.kind is InputKind.CONSTANT_TENSOR:
        return {"tensor_constant": {"arg": name, "tensor_constant_name": spec.target}}
    if spec.kind is not InputKind.USER_INPUT:
        raise Unwritable(f"an input of kind {spec.kind}")
    if isinstance(spec.arg, ConstantArgument):
        return {
            "constant_input": {"name": spec.arg.name, "value": _describe_constant(spec.arg.value)}
        }
    kind = "as_sym_int" if isinstance(spec.arg, SymIntArgument) else "as_tensor"
    return {"user_input": {"arg": {kind: name}}}


def _describe_constant(value: Any) -> dict[str, Any]:
    if value is None:
        return {"as_none": True}
    for kind, cls in (("as_bool", bool), ("as_int", int), ("as_float", float), ("as_string", str)):
        if isinstance(value, cls):
            return {kind: _describe_float(value) if isinstance(value, float) else value}
    raise Unwritable(f"a constant of type {type(value)}")


def _describe_float(value: float) -> Any:
    """Convert a float for JSON: "NaN", "Infinity" and "-Infinity" are text."""
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def describe_tensor(tensor: Tensor, sizes: list[Any] | None = None) -> dict[str, Any]:
    """Return a tensor's metadata as JSON. `sizes`: its JSON lengths, if some are dynamic."""
    if tensor.dtype.name not in _NUMBERS:
        raise Unwritable(f"a tensor of {tensor.dtype}")
    return {
        "dtype": _NUMBERS[tensor.dtype.name],
        "sizes": [{"as_int": get_first_value(n)} for n in tensor.shape] if sizes is None else sizes,
        "requires_grad": bool(tensor.requires_grad), "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": n} for n in tensor.stride()],
        "storage_offset": {"as_int": 0}, "layout": 7,
    }


class _GraphWriter:
    """Writes one graph. Subgraphs of control flow operators get separate writers."""

    def __init__(self, module: Any, table: Any) -> None:
        self.module, self.table = module, table
        self.tensors: dict[str, Any] = {}
        self.numbers: dict[str, Any] = {}
        self.truths: dict[str, Any] = {}
        self.unpacked: set[Node] = set()  # getitem nodes, written as result names

    def write(self) -> dict[str, Any]:
        """Return the graph as JSON."""
        graph: Graph = self.module.graph
        inputs, nodes, result = [], [], graph.output_node().args[0]
        for node in graph.nodes:
            if node.op == "placeholder":
                inputs.append(self.write_result(node.name, node.meta.get("val"), node))
            elif node.op == "call_function" and node not in self.unpacked:
                nodes.append(self.write_call(node))
        is_single = isinstance(result, Node)
        outputs = [result] if is_single else list(result)  # type: ignore[arg-type]
        return {"inputs": inputs, "outputs": [self.write_value(v) for v in outputs], "nodes": nodes,
                "tensor_values": self.tensors, "sym_int_values": self.numbers,
                "sym_bool_values": self.truths, "is_single_tensor_return": is_single,
                "custom_obj_values": {}, "sym_float_values": {}}

    # ---------------------------------------------------------------- calls

    def write_call(self, node: Node) -> dict[str, Any]:
        """Return a call node as JSON."""
        target: Any = node.target
        name = getattr(target, "__name__", "")
        if getattr(target, "__module__", "") == "torch.ops.higher_order":
            target, inputs, outputs = self.write_control_flow(node)
        elif isinstance(target, aten.Overload):
            packet = target.overloadpacket.__name__
            target, inputs, outputs = self.write_operator(node, packet, target._overloadname)
        elif callable(target) and _is_of_aten(target, len(node.args)):
            target, inputs, outputs = self.write_operator(node, name, "")
        elif getattr(operator, name, None) is target and name in _PYTHON:
            inputs = [self.write_named("ab"[i], self.write_value(v))
                      for i, v in enumerate(node.args)]
            target = f"_operator.{name}"
            outputs = [self.write_result(node.name, node.meta["val"], node)]
        else:
            raise Unwritable(f"a call of {name or target}")
        return {"target": target, "inputs": inputs, "outputs": outputs,
                "metadata": self.write_origin(node), "is_hop_single_tensor_return": None,
                "name": node.name}

    def write_operator(
        self, node: Node, name: str, overload: str
    ) -> tuple[str, list[Any], list[Any]]:
        """Return target, inputs and outputs of an aten call."""
        arguments = node.args
        if name in _CASTS and len(arguments) == 1:
            name, overload, arguments = "to", "dtype", (*arguments, _CASTS[name])
        args, kwargs = _replace_nodes(list(arguments)), _replace_nodes(dict(node.kwargs))
        schema = find_overload(name, args, kwargs, overload)
        if schema is None:
            raise Unwritable(f"a call of aten.{name} with these arguments")
        words = dict(zip([a.name for a in schema.arguments if not a.kwarg_only], arguments,
                         strict=False)) | dict(node.kwargs)
        inputs = [
            self.write_named(a.name, self.write_argument(a.kind, words[a.name]),
                             2 if a.kwarg_only else 1)
            for a in schema.arguments if a.name in words
        ]
        return (f"torch.ops.aten.{name}.{schema.overload_name or 'default'}", inputs,
                self.write_results(node, schema))

    def write_control_flow(self, node: Node) -> tuple[str, list[Any], list[Any]]:
        """Return target, inputs and outputs of a control flow call; functions become graphs."""
        name = getattr(node.target, "__name__", "")
        inputs = [self.write_named("", self.write_value(v)) for v in node.args]
        values = node.meta["val"]
        return f"torch.ops.higher_order.{name}", inputs, self.write_parts(node, values)

    def write_results(self, node: Node, schema: Schema) -> list[Any]:
        """Return references to a call's results and record their metadata."""
        returns, value = schema.return_text, node.meta["val"]
        if returns == "()":
            return []
        if returns.endswith("[]"):
            return [{"as_tensors": [p["as_tensor"] for p in self.write_parts(node, value)]}]
        if returns.startswith("(") and "," in returns:
            return self.write_parts(node, value)
        return [self.write_result(node.name, value, node)]

    def write_parts(self, node: Node, values: Any) -> list[Any]:
        """Return references to the parts of a result, named after their getitem nodes."""
        takers: dict[int, Node] = {}
        for user in node.users:
            if user.target is not operator.getitem or not isinstance(user.args[1], int):
                raise Unwritable(f"{user.name}, which takes several results at once")
            takers.setdefault(user.args[1] % len(values), user)
            if takers[user.args[1] % len(values)] is not user:
                raise Unwritable(f"{user.name}, which takes a result again")
        self.unpacked.update(takers.values())
        names = [takers[i].name if i in takers else f"{node.name}_unused_{i}"
                 for i in range(len(values))]
        return [self.write_result(names[i], value, takers.get(i, node))
                for i, value in enumerate(values)]

    def write_result(self, name: str, value: Any, node: Node) -> dict[str, Any]:
        """Return a reference to a result and record its metadata."""
        if isinstance(value, Tensor):
            self.tensors[name] = describe_tensor(value, self.write_sizes(value, node))
            return {"as_tensor": {"name": name}}
        if isinstance(value, bool) or hasattr(value, "relation"):
            self.truths[name] = self.write_expression(value, "as_bool")
            return {"as_sym_bool": {"as_name": name}}
        if isinstance(value, SymbolicSize) or isinstance(value, int) and node.op != "placeholder":
            self.numbers[name] = self.write_expression(value, "as_int")
            return {"as_sym_int": {"as_name": name}}
        if node.op == "placeholder":
            return _describe_constant(value)
        raise Unwritable(f"{name}, of type {type(value)}")

    def write_expression(self, value: Any, kind: str) -> dict[str, Any]:
        """Return a symbolic number as JSON."""
        text = str(getattr(value, "expression", getattr(value, "text", value)))
        return {"as_expr": {"expr_str": text, "hint": {kind: get_first_value(value)}}}

    def write_sizes(self, value: Tensor, node: Node) -> list[Any]:
        """Return a tensor's lengths, with expressions for the dynamic ones."""
        others = node.meta.get("other_sizes") or value.shape
        result = []
        for n, other in zip(map(get_first_value, value.shape), others, strict=True):
            text = None
            if n != other and self.table is not None:
                text = self.table.find(n, other)
            result.append({"as_int": n} if text is None else
                          {"as_expr": {"expr_str": str(text), "hint": {"as_int": n}}})
        return result

    # ---------------------------------------------------------------- arguments

    def write_named(self, name: str, argument: Any, kind: int = 1) -> dict[str, Any]:
        """Return an argument with its name. `kind`: 1 by position, 2 by keyword."""
        return {"name": name, "arg": argument, "kind": kind}

    def write_argument(self, kind: str, value: Any) -> dict[str, Any]:
        """Return an argument as JSON, given its type in the schema."""
        bare = kind.removesuffix("?")
        if value is None:
            return {"as_none": True}
        listed = re.fullmatch(r"(\w+)(\??)\[(\d*)\]", bare)
        if listed is None:
            if bare == "float" and isinstance(value, (int, float)):
                return {"as_float": _describe_float(value)}
            return self.write_value(value)
        atom, optional, size = listed.groups()
        values = list(value) if isinstance(value, (list, tuple)) else [value] * int(size)
        if optional:
            return {"as_optional_tensors": [
                {"as_none": True} if v is None else self.write_value(v) for v in values]}
        if atom == "Tensor":
            return {"as_tensors": [self.write_value(v)["as_tensor"] for v in values]}
        if any(isinstance(v, Node) for v in values):
            return {"as_sym_ints": [
                {"as_name": v.name} if isinstance(v, Node) else {"as_int": v} for v in values]}
        kinds = {"int": "as_ints", "SymInt": "as_ints", "float": "as_floats", "bool": "as_bools"}
        if atom not in kinds:
            raise Unwritable(f"an argument of type {kind}")
        return {kinds[atom]: [_describe_float(v) if atom == "float" else v for v in values]}

    def write_value(self, value: Any) -> dict[str, Any]:
        """Return an argument as JSON, by its Python type."""
        if isinstance(value, Node):
            return self.write_reference(value)
        if isinstance(value, dtype):
            return {"as_scalar_type": _NUMBERS[value.name]}
        if isinstance(value, (device, str)) and not isinstance(value, str):
            return {"as_device": {"type": value.type, "index": value.index}}
        if isinstance(value, layout):
            return {"as_layout": 7}
        if isinstance(value, memory_format):
            return {"as_memory_format": _MEMORY_FORMATS[value.name]}
        if isinstance(value, complex):
            return {"as_complex": {"real": value.real, "imag": value.imag}}
        if isinstance(value, (list, tuple)):
            tensors = [isinstance(v, Node) and isinstance(v.meta.get("val"), Tensor)
                       for v in value]
            kind = "Tensor[]" if all(tensors) else "SymInt[]"
            return self.write_argument(kind, value)
        return _describe_constant(value)

    def write_reference(self, node: Node) -> dict[str, Any]:
        """Return a reference to a node; for get_attr, the subgraph itself."""
        if node.op == "get_attr":
            child = getattr(self.module, str(node.target))
            return {"as_graph": {"name": str(node.target),
                                 "graph": _GraphWriter(child, self.table).write()}}
        value = node.meta.get("val")
        if isinstance(value, Tensor):
            return {"as_tensor": {"name": node.name}}
        if isinstance(value, bool) or hasattr(value, "relation"):
            return {"as_sym_bool": {"as_name": node.name}}
        if isinstance(value, int):
            return {"as_sym_int": {"as_name": node.name}}
        raise Unwritable(f"{node.name}, of type {type(value)}")

    def write_origin(self, node: Node) -> dict[str, str]:
        """Return the module stack and source line of a node."""
        stack = [f"{key},{path},{kind if isinstance(kind, str) else kind.__qualname__}"
                 for key, (path, kind) in node.meta.get("nn_module_stack", {}).items()]
        metadata = {"nn_module_stack": ";".join(stack)} if stack else {}
        if "stack_trace" in node.meta:
            metadata["stack_trace"] = str(node.meta["stack_trace"])
        return metadata


def _is_of_aten(function: Any, count: int) -> bool:
    """Return whether a function takes its arguments in the order of its aten namesake."""
    known = get_schemas(getattr(function, "__name__", ""))
    try:
        names = list(inspect.signature(inspect.unwrap(function)).parameters)
    except (TypeError, ValueError):
        return False
    return bool(known) and all(
        [a.name for a in schema.arguments][1:count] == names[1:count] for schema in known.values())


def _replace_nodes(value: Any) -> Any:
    """Return arguments with nodes replaced by their values."""
    if isinstance(value, Node):
        return value.meta.get("val")
    if isinstance(value, (list, tuple)):
        return type(value)([_replace_nodes(v) for v in value])
    if isinstance(value, dict):
        return {k: _replace_nodes(v) for k, v in value.items()}
    return value
