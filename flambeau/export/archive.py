"""Archives of exported programs: a graph in JSON plus its tensors. Loading one runs no code.

The graph refers to flambeau's operators by public path; any other callee is refused.
"""

from __future__ import annotations

import io
import json
import math
import operator
import os
import zipfile
from contextlib import nullcontext
from typing import Any

from .._higher_order_ops.associative_scan import associative_scan_op
from .._higher_order_ops.cond import cond_op
from .._higher_order_ops.map import map_impl
from .._higher_order_ops.scan import scan_op
from .._higher_order_ops.while_loop import while_loop_op
from .._higher_order_ops.wrap import wrap_with_set_grad_enabled
from .._subclasses.fake_tensor import is_fake
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..fx.qualified_names import _index_public_names, qualified_name, torch_module
from ..native.foundation.user_frames import warn
from ..ops.core import aten
from ..ops.core.operator import PUBLIC
from ..serialization import load as load_tensors
from ..serialization import save as save_tensors
from ..serialization.archive import ArchiveReader, ArchiveWriter
from ..tensor.devices import device
from ..tensor.dtypes import dtype
from ..tensor.layout import layout, memory_format
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .exported_program import ExportedProgram
from .graph_signature import (
    ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
    SymIntArgument, TensorArgument,
)
from .pytorch_files import reading
from .pytorch_files.writing import Unwritable, describe_tensor, write_document

__all__ = ["ArchiveError", "load", "save"]

_VERSION = 1
_OPERATORS = {f"operator.{name}": getattr(operator, name) for name in (
    "add", "sub", "mul", "floordiv", "mod", "truediv", "pow", "neg", "getitem", "setitem", "eq",
    "ne", "lt", "le", "gt", "ge")}
_CONTROL_FLOW = {f"torch.ops.higher_order.{f.__name__}": f
                 for f in (associative_scan_op, cond_op, map_impl, scan_op, while_loop_op,
                           wrap_with_set_grad_enabled)}
_OWN = "flambeau/program.json"
_ARGUMENTS = {c.__name__: c for c in (TensorArgument, SymIntArgument, ConstantArgument)}
# Operators that touch more than their tensor arguments: files, the network.
_REFUSED = frozenset(("from_file", "load", "save", "hub"))


class ArchiveError(RuntimeError):
    """The file is not an archive, is damaged, or calls something graphs may not call."""


# ------------------------------------------------------------------------------------- writing


def save(
    ep: ExportedProgram, f: Any, *, extra_files: dict[str, Any] | None = None,
    opset_version: Any = None, pickle_protocol: int = 2,
) -> None:
    """Write an exported program to a path or file. PyTorch's torch.export.load can read it too.

    If aten has no operator for a call, write a flambeau-only file and warn with the call's name.
    `extra_files`: additional entries, text or bytes by name. `opset_version` and
    `pickle_protocol` are ignored.
    """
    own = json.dumps(_describe_program(ep))
    try:
        document = json.dumps(write_document(ep))
        tensors = _collect_payloads("weights", "model_weights_config.json", "weight", ep.state_dict)
        tensors |= _collect_payloads(
            "constants", "model_constants_config.json", "tensor", ep.constants
        )
    except Unwritable as error:
        warn(f"torch.export.save: PyTorch will not read this file, which has {error}")
        _save_own(ep, f, own, extra_files)
        return
    is_path = isinstance(f, (str, os.PathLike))
    stem = os.path.splitext(os.path.basename(os.fspath(f)))[0] if is_path else "archive"
    with open(f, "wb") if is_path else nullcontext(f) as opened:
        writer = ArchiveWriter(opened, stem)
        records = {"archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little",
                   "models/model.json": document, _OWN: own, **tensors,
                   "data/sample_inputs/model.pt": _serialize_example(ep)}
        records |= {f"extra/{name}": content for name, content in (extra_files or {}).items()}
        for name, content in records.items():
            writer.record(name, content.encode() if isinstance(content, str) else content)
        writer.close()


def _collect_payloads(
    folder: str, config: str, prefix: str, tensors: dict[str, Tensor]
) -> dict[str, Any]:
    """Return the archive records of tensors: one with the bytes of each, and their index."""
    records: dict[str, Any] = {}
    paths: dict[Any, str] = {}
    entries = {}
    for name, tensor in tensors.items():
        if type(tensor) not in (Tensor, torch_module().nn.Parameter) or tensor.is_meta:
            raise Unwritable(f"{name}, a tensor of {type(tensor)} on {tensor.device}")
        flat = tensor.detach().contiguous()
        key = tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype
        path = paths.setdefault(key, f"{prefix}_{len(paths)}")
        records[f"data/{folder}/{path}"] = flat._array.tobytes()
        meta = describe_tensor(flat)
        meta["requires_grad"] = tensor.requires_grad
        entries[name] = {"path_name": path, "is_param": type(tensor) is not Tensor,
                         "use_pickle": False, "tensor_meta": meta}
    records[f"data/{folder}/{config}"] = json.dumps({"config": entries})
    return records


def _serialize_example(ep: ExportedProgram) -> bytes:
    """Serialize the example inputs; return b"" if there are none or some are fake."""
    leaves = pytree.tree_leaves(ep.example_inputs)
    if ep.example_inputs is None or any(is_fake(leaf) for leaf in leaves):
        return b""
    buffer = io.BytesIO()
    save_tensors(pytree.tree_map(
        lambda v: v.detach().requires_grad_(v.requires_grad) if isinstance(v, Tensor) else v,
        ep.example_inputs), buffer)
    return buffer.getvalue()


def _save_own(ep: ExportedProgram, f: Any, text: str, extra_files: dict[str, Any] | None) -> None:
    """Write a file that only flambeau can read."""
    with zipfile.ZipFile(f, "w") as archive:
        archive.writestr("version", str(_VERSION))
        archive.writestr("program.json", text)
        for name, tensors in (("state.pt", ep.state_dict), ("constants.pt", ep.constants)):
            buffer = io.BytesIO()
            save_tensors({k: v.detach() for k, v in tensors.items()}, buffer)
            archive.writestr(name, buffer.getvalue())
        for name, content in (extra_files or {}).items():
            archive.writestr(f"extra/{name}", content)


def _describe_program(ep: ExportedProgram) -> dict[str, Any]:
    signature = ep.graph_signature
    return {
        "nodes": _describe_nodes(ep.graph_module),
        "graphs": _describe_graphs(ep.graph_module),
        "inputs": [_describe_spec(s) for s in signature.input_specs],
        "outputs": [_describe_spec(s) for s in signature.output_specs],
        "in_spec": pytree.treespec_dumps(ep._in_spec),
        "out_spec": pytree.treespec_dumps(ep._out_spec),
        "names": ep._names, "bounds": ep._bounds,
    }


def _describe_nodes(module: Any) -> list[dict[str, Any]]:
    return [_describe_node(n) for n in module.graph.nodes]


def _describe_graphs(module: Any) -> dict[str, Any]:
    """Return the subgraphs of a module, by path."""
    return {str(n.target): {"nodes": _describe_nodes(getattr(module, str(n.target))),
                            "graphs": _describe_graphs(getattr(module, str(n.target)))}
            for n in module.graph.nodes if n.op == "get_attr"}


def _describe_spec(spec: Any) -> dict[str, Any]:
    return {"kind": spec.kind.name, "target": spec.target,
            "persistent": getattr(spec, "persistent", None),
            "arg": [type(spec.arg).__name__, spec.arg.name,
                    _write(getattr(spec.arg, "value", None))]}


def _describe_node(node: Node) -> dict[str, Any]:
    target = node.target if isinstance(node.target, str) else _find_name(node)
    stack = [[key, path, str(kind)]
             for key, (path, kind) in node.meta.get("nn_module_stack", {}).items()]
    return {"op": node.op, "name": node.name, "target": target, "args": _write(list(node.args)),
            "kwargs": _write(dict(node.kwargs)), "stack": stack}


def _find_name(node: Node) -> str:
    """Return the name of a node's function. Raise NotImplementedError if archives lack one."""
    target: Any = node.target
    if isinstance(target, aten.Overload):
        return f"torch.ops.{target}"
    if target in _CONTROL_FLOW.values():
        return f"torch.ops.higher_order.{target.__name__}"
    name = next((n for n, f in _OPERATORS.items() if f is target), None) or qualified_name(target)
    if name not in _OPERATORS and name not in _list_functions():
        raise NotImplementedError(f"torch.export.save: a call of {name}")
    return name


def _write(value: Any) -> Any:
    """Convert a value to JSON; containers and torch constants become one-element dicts."""
    if isinstance(value, Node):
        return {"node": value.name}
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, dict):
        return {"dict": [[_write(k), _write(v)] for k, v in value.items()]}
    if isinstance(value, (tuple, list)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_write(v) for v in value]}
    if isinstance(value, slice):
        return {"slice": [_write(v) for v in (value.start, value.stop, value.step)]}
    if value is ...:
        return {"ellipsis": None}
    if isinstance(value, (dtype, layout, memory_format)):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, device):
        return {"device": str(value)}
    raise NotImplementedError(f"torch.export.save: an argument of type {type(value)}")


# ------------------------------------------------------------------------------------- reading


def load(
    f: Any, *, extra_files: dict[str, Any] | None = None,
    expected_opset_version: Any = None,
) -> ExportedProgram:
    """Read an exported program without running code from the file.

    `extra_files`: its keys name entries of the file; `load` stores their text as the values.
    Raises RuntimeError if the file is damaged or not such an archive.
    """
    try:
        program = _read_pytorch_program(f, extra_files)
        if program is not None:
            return program
        with zipfile.ZipFile(f) as archive:
            if archive.testzip() is not None:
                raise ArchiveError("torch.export.load: the archive is damaged")
            if archive.read("version").strip() != str(_VERSION).encode():
                raise ArchiveError("torch.export.load: the archive has an unknown version")
            program = json.loads(archive.read("program.json"))
            state, constants = (
                load_tensors(io.BytesIO(archive.read(name)), weights_only=True)
                for name in ("state.pt", "constants.pt")
            )
            for name in extra_files or {}:
                extra_files[name] = archive.read(f"extra/{name}").decode()  # type: ignore[index]
        return _rebuild_program(program, state, constants)
    except (ArchiveError, OSError, NotImplementedError):
        raise
    except Exception as error:
        raise ArchiveError(f"torch.export.load: no archive of a program: {error}") from error


def _read_pytorch_program(f: Any, extra_files: dict[str, Any] | None) -> ExportedProgram | None:
    """Read the program in one of PyTorch's `.pt2` files; return None for any other file."""
    is_path = isinstance(f, (str, os.PathLike))
    with open(f, "rb") if is_path else nullcontext(f) as opened:
        start = opened.tell()
        try:
            archive = ArchiveReader(opened)
            if not archive.has("models/model.json"):
                return None
            for name in extra_files or {}:
                extra_files[name] = archive.read(f"extra/{name}").decode()  # type: ignore[index]
            if archive.has(_OWN):
                state, constants = (
                    reading.read_tensors(archive, kind, f"model_{kind}_config.json")
                    for kind in ("weights", "constants"))
                return _rebuild_program(json.loads(archive.read(_OWN)), state, constants,
                                        _read_example(archive))
            return reading.load(archive)
        except RuntimeError as error:
            if isinstance(error, NotImplementedError) or "models/model.json" in str(error):
                raise
            if "PytorchStreamReader" in str(error):
                return None
            raise
        finally:
            opened.seek(start)


def _read_example(archive: ArchiveReader) -> Any:
    """Read a file's example inputs; return None if it has none."""
    name = "data/sample_inputs/model.pt"
    if not archive.size(name):
        return None
    args, kwargs = load_tensors(io.BytesIO(archive.read(name)), weights_only=True)
    return tuple(args), dict(kwargs)


def _rebuild_module(program: dict[str, Any]) -> GraphModule:
    """Rebuild a graph and its subgraphs as a module."""
    graph = Graph()
    nodes: dict[str, Node] = {}
    graphs = {_require_identifier(path): _rebuild_module(inner)
              for path, inner in program.get("graphs", {}).items()}
    for entry in program["nodes"]:
        op = entry["op"]
        if op not in ("placeholder", "call_function", "output") and not (
                op == "get_attr" and entry["target"] in graphs):
            raise ArchiveError(f"torch.export.load: a node of kind {op!r}")
        target = _find_function(entry["target"]) if op == "call_function" else str(entry["target"])
        args, kwargs = _read(entry["args"], nodes), _read(entry["kwargs"], nodes)
        node = graph.create_node(op, target, tuple(args), kwargs, str(entry["name"]))
        node.meta["nn_module_stack"] = {
            str(key): (str(path), str(kind)) for key, path, kind in
            ((p, p, "") if isinstance(p, str) else p for p in entry["stack"])
        }
        nodes[entry["name"]] = node
    graph.lint()
    return GraphModule(graphs, graph)


def _rebuild_program(program: dict[str, Any], state: Any, constants: Any, example: Any = None
                     ) -> ExportedProgram:
    inputs = [
        InputSpec(InputKind[s["kind"]], _read_argument(s["arg"]), s["target"], s["persistent"])
        for s in program["inputs"]]
    outputs = [OutputSpec(OutputKind[s["kind"]], _read_argument(s["arg"]), s["target"])
               for s in program["outputs"]]
    parameters = {s.target for s in inputs if s.kind is InputKind.PARAMETER}
    parameter = torch_module().nn.Parameter
    known = {id(v): parameter(v, v.requires_grad or v.is_floating_point())
             for k, v in state.items() if k in parameters}  # tied weights share one parameter
    state = {k: known.get(id(v), v) for k, v in state.items()}
    return ExportedProgram(
        _rebuild_module(program), ExportGraphSignature(inputs, outputs), state, constants,
        pytree.treespec_loads(program["in_spec"]), pytree.treespec_loads(program["out_spec"]),
        [_require_identifier(n) for n in program["names"]], program["bounds"], example,
    )


def _require_identifier(name: Any) -> str:
    """Return a name that generated code will contain. Raise ArchiveError if no identifier."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ArchiveError(f"torch.export.load: {name!r} is no name")
    return name


def _read_argument(parts: list[Any]) -> Any:
    kind, name, value = parts
    cls: Any = _ARGUMENTS[kind]
    return cls(name, _read(value, {})) if cls is ConstantArgument else cls(name)


def _list_functions() -> dict[str, Any]:
    """Return the operators that archives may call, by public path."""
    operators = {f for space in PUBLIC.values() for f in space.values()}
    return {path: f for f, path in _index_public_names().items()
            if not isinstance(f, type) and f in operators
            and path.rpartition(".")[2] not in _REFUSED} | {
        f"torch.Tensor.{name}": f for name, f in PUBLIC.get("Tensor", {}).items()
    }


def _find_function(name: str) -> Any:
    known = _OPERATORS.get(name) or _CONTROL_FLOW.get(name)
    if known is not None:
        return known
    parts = name.split(".")
    if parts[:3] == ["torch", "ops", "aten"] and len(parts) == 5:
        packet = getattr(aten.aten, _require_identifier(parts[3]))
        if parts[3] in _REFUSED or parts[3].startswith("__"):
            raise ArchiveError(f"torch.export.load: a call of {name}")
        return getattr(packet, _require_identifier(parts[4]))
    known = _list_functions().get(name)
    if known is None:
        raise ArchiveError(f"torch.export.load: a call of {name}, which is no operator")
    return known


def _read(value: Any, nodes: dict[str, Node]) -> Any:
    if isinstance(value, list):
        raise ArchiveError("torch.export.load: an argument that no archive has")
    if not isinstance(value, dict):
        return value
    (kind, content), = value.items()
    if kind == "node":
        return nodes[content]
    if kind in ("list", "tuple"):
        items = [_read(v, nodes) for v in content]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        return {_read(k, nodes): _read(v, nodes) for k, v in content}
    if kind == "slice":
        return slice(*(_read(v, nodes) for v in content))
    if kind == "float":
        return float(content)
    if kind == "complex":
        return complex(*content)
    if kind == "ellipsis":
        return ...
    if kind == "device":
        return device(content)
    if kind == "torch":
        result = getattr(torch_module(), _require_identifier(content))
        if isinstance(result, (dtype, layout, memory_format)):
            return result
    raise ArchiveError(f"torch.export.load: an argument of kind {kind!r}")
