"""Read PyTorch's `.pt2` files: run the graph once and record it as a flambeau graph.

The graph may only call aten operators, control flow and arithmetic on sizes. No code from the file
runs.
"""

from __future__ import annotations

import inspect
import io
import json
import operator
from collections.abc import Callable
from typing import Any

from ...nn.module import Module
from ...nn.parameter import Parameter
from ...ops.core.operator import PUBLIC
from ...serialization import load as load_tensors
from ...serialization.archive import ArchiveReader
from ...tensor.devices import device
from ...tensor.dtypes import all_dtypes
from ...utils import _pytree as pytree
from ..aten_functions import FUNCTIONS, find_aten_function
from ..dynamic_shapes import Dim
from ..exported_program import ExportedProgram
from ..trace import export
from .control_flow import OPERATORS

__all__ = ["DTYPES", "load", "read_tensors"]

# The schema's numbers for dtypes and memory formats; they differ from c10's.
DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32",
           8: "float64", 9: "complex32", 10: "complex64", 11: "complex128", 12: "bool",
           13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2"}
_MEMORY_FORMATS = {1: 0, 2: 2, 3: 3, 4: 1}  # -> c10::MemoryFormat
_PYTHON = {f"_operator.{name}": getattr(operator, name) for name in (
    "add", "sub", "mul", "floordiv", "mod", "truediv", "neg", "pow", "eq", "ne", "lt", "le", "gt",
    "ge", "getitem")}
_HIGHER_ORDER = "torch.ops.higher_order."
# Assertions, skipped here: they compute nothing.
_CHECKS = frozenset(("_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range",
                     "sym_constrain_range_for_size", "_assert_async"))


def load(archive: ArchiveReader) -> ExportedProgram:
    """Read the program in PyTorch's archive.

    Raises NotImplementedError for an operator that flambeau lacks.
    """
    document = json.loads(archive.read("models/model.json"))
    module = _Graph(archive, document["graph_module"])
    args, kwargs = _read_inputs(archive, module)
    shapes = module.dynamic_shapes()
    names = list(inspect.signature(module.forward).parameters)
    vary = any(shapes) and len(names) == len(shapes)
    program = export(module, args, kwargs,
                     dynamic_shapes=dict(zip(names, shapes, strict=True)) if vary else None)
    program.graph_module.meta["from"] = f"torch {document.get('torch_version')}"
    return program


def _read_inputs(archive: ArchiveReader, module: _Graph) -> tuple[tuple, dict[str, Any]]:
    """Return the file's example inputs, or zeros of the sizes it records."""
    name = "data/sample_inputs/model.pt"
    if archive.has(name) and archive.size(name):
        args, kwargs = load_tensors(io.BytesIO(archive.read(name)), weights_only=True)
        return tuple(args), dict(kwargs)
    return module.example(), {}


def read_tensors(archive: ArchiveReader, kind: str, config: str) -> dict[str, Any]:
    """Return the tensors listed in a folder's config, by name."""
    name = f"data/{kind}/{config}"
    if not archive.has(name):
        return {}
    result: dict[str, Any] = {}
    known: dict[str, Any] = {}  # by path, so that tied parameters stay one tensor
    for key, entry in json.loads(archive.read(name))["config"].items():
        if entry["path_name"] in known:
            result[key] = known[entry["path_name"]]
            continue
        data = archive.read(f"data/{kind}/{entry['path_name']}")
        if entry["use_pickle"]:
            result[key] = load_tensors(io.BytesIO(data), weights_only=True)
            continue
        meta = entry["tensor_meta"]
        form = all_dtypes()[DTYPES[meta["dtype"]]]
        sizes, strides = ([int(n["as_int"]) for n in meta[k]] for k in ("sizes", "strides"))
        flat = PUBLIC["torch"]["frombuffer"](bytearray(data), dtype=form) if data else \
            PUBLIC["torch"]["empty"](0, dtype=form)
        offset = int(meta["storage_offset"]["as_int"])
        tensor = PUBLIC["torch"]["as_strided"](flat, sizes, strides, offset).clone() if data else \
            flat.reshape(sizes)
        result[key] = Parameter(tensor, bool(meta["requires_grad"])) if entry["is_param"] \
            else tensor
        known[entry["path_name"]] = result[key]
    return result


class _Graph(Module):
    """A module that interprets a file's graph node by node."""

    def __init__(self, archive: ArchiveReader, document: dict[str, Any]) -> None:
        super().__init__()
        own = self.__dict__
        own["_flambeau_graph"] = document["graph"]
        own["_flambeau_signature"] = document["signature"]
        call = document["module_call_graph"][0]["signature"]
        own["_flambeau_out_spec"] = pytree.treespec_loads(call["out_spec"])
        tensors = read_tensors(archive, "weights", "model_weights_config.json")
        constants = read_tensors(archive, "constants", "model_constants_config.json")
        self._flambeau_inputs: list[tuple[str, str, str]] = []
        self._flambeau_constants: dict[str, Any] = {}
        for spec in document["signature"]["input_specs"]:
            (kind, entry), = spec.items()
            self._read_input(kind, entry, {**constants, **tensors})
        own["forward"] = _rename_parameters(self._run, call.get("forward_arg_names") or [])

    def _read_input(self, kind: str, entry: dict[str, Any], tensors: dict[str, Any]) -> None:
        """Register a parameter, buffer, constant or argument of the graph."""
        if kind == "user_input":
            (_, value), = entry["arg"].items()
            name = value.get("name") or value.get("as_name") if isinstance(value, dict) else ""
            self._flambeau_inputs.append((str(name), "input", ""))
            return
        target = entry.get(f"{kind}_name")
        if kind not in ("parameter", "buffer", "tensor_constant") or not isinstance(target, str):
            raise NotImplementedError(f"torch.export.load: an input of kind {kind}")
        self._flambeau_inputs.append((entry["arg"]["name"], kind, target))
        if kind == "tensor_constant":
            self._flambeau_constants[target] = tensors[target]
            return
        owner: Module = self
        *path, last = target.split(".")
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, Module())
            child = owner._modules[part]
            assert child is not None
            owner = child
        if kind == "parameter":
            owner.register_parameter(last, tensors[target])
        else:
            owner.register_buffer(last, tensors[target], persistent=bool(entry["persistent"]))

    def dynamic_shapes(self) -> list[dict[int, Any] | None]:
        """Return the dynamic axes of each input, or None if it has none."""
        values = self._flambeau_graph["tensor_values"]
        result: list[dict[int, Any] | None] = []
        for name, kind, _ in self._flambeau_inputs:
            if kind == "input":
                sizes = values.get(name, {}).get("sizes", ())
                axes = {i: Dim.DYNAMIC for i, n in enumerate(sizes) if "as_int" not in n}
                result.append(axes or None)
        return result

    def example(self) -> tuple:
        """Return zeros for each input, of the sizes in the file."""
        values = self._flambeau_graph["tensor_values"]
        result = []
        for name, kind, _ in self._flambeau_inputs:
            if kind == "input":
                sizes = [int(n["as_int"] if "as_int" in n else n["as_expr"]["hint"]["as_int"])
                         for n in values[name]["sizes"]]
                form = all_dtypes()[DTYPES[values[name]["dtype"]]]
                result.append(PUBLIC["torch"]["zeros"](sizes, dtype=form))
        return tuple(result)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph."""
        values: dict[str, Any] = {}
        leaves = iter(pytree.tree_leaves((args, kwargs)))
        for name, kind, target in self._flambeau_inputs:
            values[name] = next(leaves) if kind == "input" else \
                self._flambeau_constants[target] if kind == "tensor_constant" else _find_module(
                    self, target
                )
        for node in self._flambeau_graph["nodes"]:
            _compute(node, values)
        results = []
        specs = self._flambeau_signature["output_specs"]
        for spec, argument in zip(specs, self._flambeau_graph["outputs"], strict=True):
            (kind, entry), = spec.items()
            value = _read_argument(argument, values)
            if kind == "buffer_mutation":
                _find_module(self, entry["buffer_name"]).copy_(value)
            elif kind == "user_output":
                results.append(value)
            else:
                raise NotImplementedError(f"torch.export.load: an output of kind {kind}")
        return pytree.tree_unflatten(results, self._flambeau_out_spec)


def _find_module(module: Module, path: str) -> Any:
    *owners, last = path.split(".")
    for name in owners:
        module = module._modules[name]
    return module._parameters[last] if last in module._parameters else module._buffers[last]


def _rename_parameters(function: Callable[..., Any], names: list[Any]) -> Callable[..., Any]:
    """Return the function with its parameters renamed."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    if names and all(isinstance(n, str) and n.isidentifier() for n in names):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(n, kind) for n in names]
        forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return forward


def _compute(node: dict[str, Any], values: dict[str, Any]) -> None:
    """Run one node on `values` and store its results there by name."""
    target = str(node["target"])
    parts = target.split(".")
    if len(parts) == 5 and parts[:3] == ["torch", "ops", "aten"] and parts[3] in _CHECKS:
        return
    args, kwargs = [], {}
    for entry in node["inputs"]:
        value = _read_argument(entry["arg"], values)
        if entry.get("kind") == 2:
            kwargs[str(entry["name"])] = value
        else:
            args.append(value)
    result = _find_function(target)(*args, **kwargs)
    outputs = node["outputs"]
    if len(outputs) == 1 and target.startswith(_HIGHER_ORDER):
        result = result if "as_tensors" in outputs[0] else result[0]
    if len(outputs) == 1:
        _bind(outputs[0], result, values)
    else:
        for output, value in zip(outputs, result, strict=False):
            _bind(output, value, values)


def _bind(output: dict[str, Any], result: Any, values: dict[str, Any]) -> None:
    (kind, content), = output.items()
    if kind == "as_tensors":
        for entry, value in zip(content, result, strict=True):
            values[entry["name"]] = value
    elif kind in ("as_tensor", "as_sym_int", "as_sym_bool", "as_sym_float"):
        values[content.get("name") or content["as_name"]] = result
    elif kind != "as_none":
        raise NotImplementedError(f"torch.export.load: a result of kind {kind}")


def _find_function(target: str) -> Callable[..., Any]:
    if target in _PYTHON:
        return _PYTHON[target]
    parts = target.split(".")
    result = None
    if target.startswith(_HIGHER_ORDER):
        result = OPERATORS.get(target.removeprefix(_HIGHER_ORDER))
    if len(parts) == 5 and parts[:3] == ["torch", "ops", "aten"] \
            and (not parts[3].startswith("__") or parts[3] in FUNCTIONS):
        result = find_aten_function(parts[3])
    if result is None:
        raise NotImplementedError(f"torch.export.load: the operator {target}")
    return result


def _create_subgraph(graph: dict[str, Any]) -> Callable[..., tuple[Any, ...]]:
    """Return a graph that is an argument as a function."""
    names = [_find_name(argument) for argument in graph["inputs"]]

    def run(*args: Any) -> tuple[Any, ...]:
        values = dict(zip(names, args, strict=True))
        for node in graph["nodes"]:
            _compute(node, values)
        return tuple([_read_argument(argument, values) for argument in graph["outputs"]])

    return run


def _find_name(argument: dict[str, Any]) -> str:
    (content,) = argument.values()
    return str(content.get("name") or content["as_name"])


_PLAIN = frozenset(("as_int", "as_ints", "as_float", "as_floats", "as_bool", "as_bools",
                    "as_string", "as_strings"))


def _read_argument(argument: dict[str, Any], values: dict[str, Any]) -> Any:
    """Return the value of an argument."""
    (kind, content), = argument.items()
    if kind in _PLAIN:
        return float(content) if kind == "as_float" else content  # "Infinity" is text
    if kind == "as_none":
        return None
    if kind in ("as_tensor", "as_sym_int", "as_sym_bool", "as_sym_float"):
        name = content.get("name") or content.get("as_name")
        return values[name] if name is not None else next(iter(content.values()))
    if kind in ("as_tensors", "as_sym_ints", "as_optional_tensors", "as_sym_floats"):
        inner = "as_sym_int" if kind.startswith("as_sym") else "as_tensor"
        return [_read_argument(e, values) if "as_none" in e or "as_tensor" in e
                else _read_argument({inner: e}, values) for e in content]
    if kind == "as_scalar_type":
        return all_dtypes()[DTYPES[content]]
    if kind == "as_memory_format":
        return _MEMORY_FORMATS[content]
    if kind == "as_device":
        return device(content["type"])
    if kind == "as_layout":
        return 0
    if kind == "as_graph":
        return _create_subgraph(content["graph"])
    if kind == "as_complex":
        return complex(content["real"], content["imag"])
    raise NotImplementedError(f"torch.export.load: an argument of kind {kind}")
