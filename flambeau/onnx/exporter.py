"""export: convert a module to an ONNX model with torch.export."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from .. import version
from .._higher_order_ops.active_export import expanding
from .._higher_order_ops.gradient_regions import inline_gradient_regions
from ..autograd.mode import no_grad
from ..export import Dim, ExportedProgram
from ..export import export as export_program
from ..export.graph_signature import InputKind
from ..fx.graph_module import GraphModule
from ..fx.node import RANDOM_OPERATORS, Node
from ..fx.trace_errors import explain
from ..ops.core.operator import PUBLIC
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .conversion_table import CONVERSIONS
from .custom_translation import find_translation, translating
from .errors import ConversionError
from .expansions import find_expansion, import_formulas
from .export_modes import TrainingMode, select_model_mode_for_export
from .graph_builder import DTYPES, GraphBuilder, short
from .program import ONNXProgram, read_names
from .shared_memory import SharedMemory, find_fixed_nodes, find_operator_name

__all__ = ["export", "is_exporting"]

_OPSET = 18
_CHECKED_BYTES = 2**26  # the checker copies the model
_FAMILIES = ("elementwise", "indexed", "shapes", "layers", "recurrent", "control_flow")
_running: ContextVar[bool] = ContextVar("onnx_export", default=False)


def is_exporting() -> bool:
    """Return whether a model is being exported."""
    return _running.get()


def export(
    model: Any, args: Any = (), f: Any = None, *, kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None, input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None, opset_version: int | None = None,
    dynamo: bool = True, external_data: bool = True, dynamic_shapes: Any = None,
    custom_translation_table: Any = None, optimize: bool = True, verify: bool = False,
    keep_initializers_as_inputs: bool = False, dynamic_axes: Any = None,
    training: TrainingMode = TrainingMode.EVAL, export_params: bool = True,
    do_constant_folding: bool = True, **options: Any,
) -> ONNXProgram:
    """Convert a module to an ONNX model; write it to `f` if given. Requires the package `onnx`.

    `dynamic_shapes`: as for torch.export.export. `dynamic_axes`: {input: [dimensions]}, the older
    form of the same. `custom_translation_table`: functions of onnxscript by the operator that they
    stand for (`torch.ops.mylib.op.default`). `training`: the module's mode during an export with
    `dynamo=False`; with `dynamo=True` it keeps its own. `optimize`: leave out copies. `verify`:
    compare the results of both. Further options are accepted. Raises RuntimeError for an operator
    without a conversion, before writing anything.

    >>> torch.onnx.export(nn.Linear(3, 2), (torch.ones(1, 3),)).model_proto.graph.node[0].op_type
    'Gemm'
    """
    _require_onnx()
    with translating(custom_translation_table, opset_version):
        token = _running.set(True)
        try:
            program, expanded, names = _capture(
                model, args, kwargs, dynamic_shapes, dynamic_axes, list(input_names or ()),
                TrainingMode.PRESERVE if dynamo else training)
        finally:
            _running.reset(token)
        fixed, memory = find_fixed_nodes(expanded), SharedMemory(expanded)
        _check_operators(expanded, fixed)
        _check_writes(expanded, fixed, memory)
        proto = _model(expanded, fixed, memory, names, output_names, opset_version)
    result = ONNXProgram(proto, program)
    result._capture_strategy = None if program is model else "TorchExportNonStrictStrategy"
    if optimize:
        result.optimize()
    if verify:
        from .testing import assert_onnx_program

        assert_onnx_program(result, strategy=None, rtol=1e-3, atol=1e-3)
    if f is not None:
        result.save(f, include_initializers=export_params,
                    keep_initializers_as_inputs=keep_initializers_as_inputs)
    return result


def _capture(
    model: Any, args: Any, kwargs: dict[str, Any] | None, dynamic_shapes: Any, dynamic_axes: Any,
    names: list[str], mode: TrainingMode,
) -> tuple[ExportedProgram, ExportedProgram, list[str]]:
    """Return the exported program, one in operators with conversions, and the inputs' names."""
    for family in _FAMILIES:
        importlib.import_module(f"{__package__}.{family}")
    import_formulas()
    if isinstance(model, ExportedProgram):
        program = model
    else:
        args = args if isinstance(args, tuple) else (args,)
        if args and isinstance(args[-1], dict) and kwargs is None and not _takes_dict(model, args):
            args, kwargs = args[:-1], args[-1]
        if dynamic_axes and dynamic_shapes is None:
            dynamic_shapes = _convert_axes(model, args, kwargs or {}, dynamic_axes, names)
        with select_model_mode_for_export(model, mode):
            program = export_program(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    plain = _drop_regions(program)
    if not _list_missing(plain, find_fixed_nodes(plain)):
        return program, plain, names
    try:
        if program is not model:
            with select_model_mode_for_export(model, mode), expanding(find_expansion):
                expanded = export_program(model, args, kwargs, dynamic_shapes=dynamic_shapes)
        else:
            expanded = _expand(program)
        if not _agree(program, expanded):
            return program, plain, names
    except Exception:  # an expansion does not apply: the operators are reported
        return program, plain, names
    return program, _drop_regions(expanded), names or list(program.graph_signature.user_inputs)


def _expand(program: ExportedProgram) -> ExportedProgram:
    """Export a program again, in operators with conversions."""
    if program.example_inputs is None:
        return program
    args, kwargs = program.example_inputs
    axes = [{d: Dim.AUTO for d, (n, *_) in enumerate(bounds) if n is None}
            for bounds in program._bounds.values()]
    shapes: Any = None
    if any(axes):
        _, spec = pytree.tree_flatten((args, kwargs))
        positional, named = pytree.tree_unflatten(axes, spec)
        shapes = (*positional, *named.values())
    with expanding(find_expansion):
        return export_program(program.module(), args, kwargs, dynamic_shapes=shapes)


def _agree(program: ExportedProgram, expanded: ExportedProgram) -> bool:
    """Return whether both compute the same from other inputs.

    They do not if the body of a composite operator reads the values of tensors.
    """
    if program.example_inputs is None or any(
        find_operator_name(node).rstrip("_") in RANDOM_OPERATORS
        for node in _iterate_nodes(expanded.graph_module) if node.op == "call_function"
    ):
        return True
    with no_grad():
        args, kwargs = pytree.tree_map(_vary, program.example_inputs)
        try:
            before = pytree.tree_leaves(program.module()(*args, **kwargs))
        except Exception:  # the model refuses such inputs
            return True
        after = pytree.tree_leaves(expanded.module()(*args, **kwargs))
    return all(bool(x.isclose(y, 1e-2, 1e-2, equal_nan=True).all())
               for x, y in zip(before, after, strict=True) if isinstance(x, Tensor))


def _vary(x: Any) -> Any:
    """Return another input of the same shape; integers may be indices and are reversed."""
    if not isinstance(x, Tensor):
        return x
    x = x.detach()
    if not x.is_floating_point():
        return x.flip(tuple(range(x.ndim))).clone()
    count = PUBLIC["torch"]["arange"](x.numel(), dtype=x.dtype).reshape(x.shape)
    return x * (1 + 0.5 * count.sin()) + 0.125 * count.cos()


def _drop_regions(program: ExportedProgram) -> ExportedProgram:
    """Return the program without grad modes, which ONNX does not know."""
    result = copy.copy(program)
    result._graph_module = inline_gradient_regions(program.graph_module)
    return result


def _require_onnx() -> None:
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        error.add_note("pip install 'flambeau[onnx]'")
        raise


def _takes_dict(model: Any, args: tuple) -> bool:
    """Return whether the last argument, a dict, is positional: its keys are not parameters."""
    parameters = inspect.signature(model.forward).parameters
    return not set(args[-1]) <= set(parameters)


def _convert_axes(model: Any, args: tuple, kwargs: dict[str, Any], axes: dict[str, Any],
                  names: list[str]) -> dict[str, Any]:
    """Convert `dynamic_axes` to dynamic shapes. Axes with the same name have the same length."""
    parameters = list(inspect.signature(model.forward).parameters)
    supplied = parameters[: len(args)] + list(kwargs)
    known: dict[str, Dim] = {}
    shapes: dict[str, Any] = {}
    for i, parameter in enumerate(supplied):
        axis_names = axes.get(names[i] if i < len(names) else parameter, axes.get(parameter))
        if not axis_names:
            continue
        pairs = axis_names.items() if isinstance(axis_names, dict) else (
            (d, f"{parameter}_dim_{d}") for d in axis_names
        )
        shapes[parameter] = {d: known.setdefault(n, Dim(n)) for d, n in pairs}
    return {name: shapes.get(name) for name in supplied}


def _find_conversion(node: Node) -> Any:
    translation = find_translation(node)
    if translation is not None:
        return translation
    name = find_operator_name(node)
    bare = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    return CONVERSIONS.get(name) or CONVERSIONS.get(bare)


def _place(node: Node) -> str:
    stack = list(node.meta.get("nn_module_stack", {}).values())
    path, kind = stack[-1] if stack else ("", None)
    shown = f" ({str(kind).rpartition('.')[2]})" if kind else ""
    return f"in {path or 'the model itself'}{shown}"


def _build_unsupported_error(lines: list[str]) -> ConversionError:
    error = ConversionError(
        "Failed to convert the exported program to an ONNX model: no conversion for\n"
        + "\n".join(f"  - {line}" for line in lines)
    )
    explain(error, "Write these parts of the model with other operators; nothing was written.")
    return error


def _iterate_nodes(module: Any) -> Iterator[Node]:
    """Yield the nodes of a graph, and of the graphs in its operators' arguments."""
    yield from module.graph.nodes
    for _, part in module.named_children():
        if isinstance(part, GraphModule):
            yield from _iterate_nodes(part)


def _check_operators(program: ExportedProgram, fixed: set[Node]) -> None:
    """Raise ConversionError naming each operator without a conversion, and its module."""
    missing = _list_missing(program, fixed)
    if missing:
        raise _build_unsupported_error(missing)


def _list_missing(program: ExportedProgram, fixed: set[Node]) -> list[str]:
    """Return each operator without a conversion, and its module."""
    return list(dict.fromkeys(
        f"{node.target if hasattr(node.target, 'overloadpacket') else find_operator_name(node)} "
        f"{_place(node)}"
        for node in _iterate_nodes(program.graph_module)
        if node.op == "call_function" and node not in fixed and _find_conversion(node) is None
        and find_operator_name(node) != "operator.setitem"
    ))


def _check_writes(program: ExportedProgram, fixed: set[Node], memory: SharedMemory) -> None:
    """Raise ConversionError for writes to shared memory that cannot be converted.

    Other in-place writes are converted as the operator without the underscore.
    """
    problems = []
    for node in program.graph.nodes:
        if node not in fixed and memory.needs(node):
            reason = memory.refusal(node)
            if reason is not None:
                problems.append(f"{node.target} {_place(node)}: {reason}")
    if problems:
        raise _build_unsupported_error(problems)


def _model(
    program: ExportedProgram, fixed: set[Node], memory: SharedMemory,
    input_names: Sequence[str] | None, output_names: Sequence[str] | None, opset: int | None,
) -> Any:
    builder = GraphBuilder()
    builder.fixed, builder.module = fixed, program.graph_module
    builder.is_dynamic = any(n is None for dims in program._bounds.values() for n, *_ in dims)
    builder.convert = lambda b, node: _convert(b, node, memory)
    inputs = _add_inputs(builder, program, list(input_names or ()))
    for node in program.graph.nodes:
        if node.op == "call_function" and node not in fixed:
            _convert(builder, node, memory)
    outputs = _add_outputs(builder, program, list(output_names or ()))
    helper = builder.helper
    read = read_names(builder.nodes)
    constants = [c for c in builder.initializers if c.name in read]
    graph = helper.make_graph(builder.nodes, "main_graph", inputs, outputs, constants)
    model = helper.make_model(
        graph, opset_imports=_list_opsets(builder, opset),
        producer_name="flambeau", producer_version=version._flambeau_version,
    )
    model.ir_version = 10  # supported by onnxruntime
    if model.ByteSize() < _CHECKED_BYTES:
        import onnx

        onnx.checker.check_model(model)
    return model


def _list_opsets(builder: GraphBuilder, opset: int | None) -> list[Any]:
    """Return the versions of the domains whose operators the model uses."""
    versions = {**builder.opsets, "": max(opset or _OPSET, _OPSET, builder.opsets.get("", 0))}
    return [builder.helper.make_opsetid(domain, n) for domain, n in versions.items()]


def _convert(builder: GraphBuilder, node: Node, memory: SharedMemory) -> None:
    kwargs = {k: v for k, v in node.kwargs.items()
              if k not in ("inplace", "dtype", "device", "layout", "memory_format", "out",
                           "requires_grad", "non_blocking", "pin_memory")}
    builder.current = node.name
    try:
        name = None
        if find_operator_name(node) != "operator.setitem":
            name = builder.names[node] = _find_conversion(node)(builder, node, *node.args, **kwargs)
        if memory.needs(node):
            memory.write(builder, node, name)
        elif name is not None:
            builder.names.update(dict.fromkeys(memory.find_aliases(node), name))
    except (NotImplementedError, TypeError) as error:
        raise _build_unsupported_error([f"{node.target} {_place(node)}: {error}"]) from error


def _add_inputs(builder: GraphBuilder, program: ExportedProgram, names: list[str]) -> list[Any]:
    """Add the inputs that the caller passes; state becomes initializers."""
    inputs = []
    dims = iter(program._bounds.items())
    specs = {s.arg.name: s for s in program.graph_signature.input_specs}
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        spec = specs[node.name]
        if spec.kind is not InputKind.USER_INPUT:
            value = program.value_of(spec)
            name = builder.unique(str(spec.target))
            if node.users:
                array = value.detach().contiguous().numpy()
                builder.initializers.append(builder.numpy_helper.from_array(array, name))
            builder.names[node] = name
            continue
        label, bounds = next(dims)
        if not bounds and not isinstance(node.meta.get("val"), Tensor):
            continue
        name = builder.unique(names.pop(0) if names else node.name)
        builder.names[node] = name
        shape = [f"{label}_dim_{d}" if n is None else n for d, (n, *_) in enumerate(bounds)]
        kind = DTYPES[short(node.meta["val"].dtype)]
        inputs.append(builder.helper.make_tensor_value_info(name, kind, shape))
    return inputs


def _add_outputs(builder: GraphBuilder, program: ExportedProgram, names: list[str]) -> list[Any]:
    outputs = []
    results: Any = program.graph.output_node().args[0]
    for x in results:
        if not isinstance(x, Node):
            continue
        name = builder.unique(names.pop(0) if names else x.name)
        builder.nodes.append(
            builder.helper.make_node("Identity", [builder.name(x)], [name], name=f"out_{name}")
        )
        value = x.meta.get("val")
        kind = DTYPES[short(value.dtype)] if isinstance(value, Tensor) else DTYPES["int64"]
        shape = [None] * value.ndim if isinstance(value, Tensor) else []
        outputs.append(builder.helper.make_tensor_value_info(name, kind, shape))
    return outputs
