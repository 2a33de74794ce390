"""export: record one run of a module as a graph of aten operators."""

from __future__ import annotations

import inspect
import re
from typing import Any

from .._higher_order_ops.active_export import exporting, is_jit_tracing
from .._higher_order_ops.gradient_regions import wrap_gradient_regions
from .._subclasses.fake_tensor import is_fake
from ..autograd.mode import (
    exporting_without_tape, is_grad_enabled, no_grad, set_grad_enabled,
)
from ..fx._pytree import tree_flatten_spec
from ..fx.codegen import _PyTreeCodeGen
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.interpreter import Interpreter
from ..fx.node import RANDOM_OPERATORS, Node
from ..fx.patcher import Patcher
from ..fx.trace_errors import explain
from ..fx.traceback import preserve_node_meta
from ..native.foundation.public_names import class_of
from ..nn.module import Module
from ..ops.core.operator import PUBLIC
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .dimension_symbols import DimensionSymbols
from .dynamic_shapes import collect_dynamic_dims
from .errors import UserError, UserErrorType
from .exported_program import ExportedProgram
from .graph_signature import (
    ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
    SymIntArgument, TensorArgument,
)
from .module_calls import ModuleCalls
from .module_state import find_constant_paths, collect_state_tensors, find_transient_buffers
from .recorder import Recorder
from .symbolic.sizes import SpecializationError

__all__ = ["export"]

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                inspect.Parameter.VAR_POSITIONAL)


def export(
    mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
    dynamic_shapes: Any = None, strict: bool = False, preserve_module_call_signature: Any = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """Export a module as a graph of aten operators, recorded in one run on example inputs.

    `dynamic_shapes`: for each input, by name or position, {dimension: torch.export.Dim} for the
    dimensions that may vary between calls; all others are fixed. `strict` and
    `prefer_deferred_runtime_asserts_over_guards` are ignored.
    Raises RuntimeError, with the line and a fix, if the program reads a tensor's value or branches
    on the length of a dynamic dimension.

    >>> program = torch.export.export(nn.ReLU(), (torch.ones(3),))
    >>> program.graph_signature.user_inputs, program.module()(-torch.ones(3))
    (('input_1',), tensor([0., 0., 0.]))
    """
    if not isinstance(mod, Module):
        raise ValueError(
            f"Expected `mod` to be an instance of `torch.nn.Module`, got {class_of(mod)}."
        )
    if not isinstance(args, tuple):
        raise UserError(
            UserErrorType.INVALID_INPUT,
            f"Expecting `args` to be a tuple of example positional inputs, got {class_of(args)}"
        )

    def attempt() -> _Export:
        return _Export(mod, args, kwargs or {}, dynamic_shapes, preserve_module_call_signature)

    first = attempt()
    try:
        return first.run(step=1)
    except _NearSizesAgree:
        return attempt().run(step=1, is_far=True)
    except SpecializationError as error:
        if not first.recorder.unbacked:
            raise
        try:  # a number read from a tensor may be at its upper bound
            return attempt().run(step=-1)
        except SpecializationError:
            raise error from None


class _NearSizesAgree(Exception):
    """The program is correct for both inputs of its trace, but not for others.

    Some number is equal for both, such as n // 2 for lengths 4 and 5.
    """


def _separate(inputs: tuple[tuple, dict[str, Any]]) -> tuple[tuple, dict[str, Any]]:
    """Return inputs in which repeated tensors are copied: each occurrence is an input."""
    leaves, spec = pytree.tree_flatten(inputs)
    seen: set[int] = set()
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor) and id(leaf) in seen:
            leaves[i] = leaf.detach().clone().requires_grad_(leaf.requires_grad)
        seen.add(id(leaf))
    result: tuple[tuple, dict[str, Any]] = pytree.tree_unflatten(leaves, spec)
    return result


class _Export:
    """The state of one export."""

    recorder: Recorder

    def __init__(self, module: Module, args: tuple, kwargs: dict[str, Any], spec: Any,
                 preserved: Any) -> None:
        args, kwargs = _separate((args, kwargs))
        self.module, self.args, self.kwargs = module, args, kwargs
        signature = inspect.signature(module.forward)
        self.names = _list_parameter_names(signature, args, kwargs)
        self.leaves, self.in_spec = pytree.tree_flatten((args, kwargs))
        labels = _list_labels(self.names, args, kwargs)
        self.labels = [_make_unique(labels, i) for i in range(len(labels))]
        signature.bind(*args, **kwargs)
        self.dims = collect_dynamic_dims(spec, signature, args, kwargs)
        self.graph = Graph()
        self.inputs: list[InputSpec] = []
        self.state: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
        self.state |= {path: buffer for path, buffer in module.named_buffers(remove_duplicate=False)
                       if path not in find_transient_buffers(module)}
        self.constants: dict[str, Tensor] = {}
        self.paths = find_constant_paths(module)
        self.first_input: Node | None = None
        self.calls = ModuleCalls(module, preserved)

    def run(self, step: int, is_far: bool = False) -> ExportedProgram:
        """Record the program.

        `step`: the difference between the inputs' values of a number read from a tensor. `is_far`:
        whether their lengths differ by more than a factor of two.
        """
        self.symbols = DimensionSymbols(self.leaves, self.dims, is_far)
        recorder = self.recorder = Recorder(self.graph, self.lift, True, step)
        # torch.jit.trace, as PyTorch's, ignores grad modes.
        recorder.has_modes, self.ambient = not is_jit_tracing(), is_grad_enabled()
        self.symbols.enter(recorder.table)
        self.add_inputs(recorder)
        self.add_state(recorder)
        buffers = {name: b.clone() for name, b in self.module.named_buffers()}
        try:
            with set_grad_enabled(recorder.has_modes and self.ambient), exporting_without_tape(), \
                    Patcher() as patcher, exporting():
                self.calls.follow(patcher, recorder)
                with recorder.active():
                    result = self.compute()
        finally:
            with no_grad():
                for name, b in self.module.named_buffers():
                    b.copy_(buffers[name])
        program = self.finish(recorder, result)
        if self.dims:
            if not any(map(is_fake, (*self.leaves, *self.state.values()))):
                if not self.agrees(program, self.symbols.others):
                    raise self.specialized()
                far = None if is_far else self.symbols.far_inputs(self.leaves)
                if far is not None and not self.agrees(program, far, is_allowed=False):
                    raise _NearSizesAgree
            names = [s.arg.name for s in self.inputs if s.kind is InputKind.USER_INPUT]
            self.symbols.show(program.graph, names)
        return program

    def compute(self) -> Any:
        """Run the module. Interpret an fx graph node by node, to preserve its nodes' meta."""
        codegen = getattr(getattr(self.module, "graph", None), "_codegen", None)
        if not isinstance(self.module, GraphModule) or not isinstance(codegen, _PyTreeCodeGen):
            return self.module(*self.args, **self.kwargs)
        leaves = tree_flatten_spec((self.args, self.kwargs), codegen.pytree_info.in_spec)
        with preserve_node_meta():
            result = Interpreter(self.module).run(*leaves, enable_io_processing=False)
        return codegen.process_outputs(result)

    # ---------------------------------------------------------------- inputs

    def add_state(self, recorder: Recorder) -> None:
        """Add an input for each parameter and buffer, before the caller's inputs."""
        self.constants.update(find_transient_buffers(self.module))
        for kind, path, value, persistent in collect_state_tensors(self.module):
            prefix = "p_" if kind is InputKind.PARAMETER else "b_"
            node = self.hidden_input(re.sub(r"\W", "_", prefix + path))
            recorder.register(value, node)
            self.add_spec(InputSpec(kind, TensorArgument(node.name), path, persistent))

    def placeholder(self, name: str) -> Node:
        """Add an input node; the graph renames it if the name is taken."""
        node = self.graph.placeholder(name)
        node.target = node.name
        return node

    def hidden_input(self, name: str) -> Node:
        """Add an input before the caller's."""
        if self.first_input is not None:
            with self.graph.inserting_before(self.first_input):
                return self.placeholder(name)
        call = next((n for n in self.graph.nodes if n.op != "placeholder"), self.graph._root)
        with self.graph.inserting_before(call):
            return self.placeholder(name)

    def add_spec(self, spec: InputSpec) -> None:
        """Add the signature entry of a hidden input, before the caller's inputs."""
        place = next((i for i, s in enumerate(self.inputs) if s.kind is InputKind.USER_INPUT),
                     len(self.inputs))
        self.inputs.insert(place, spec)

    def add_inputs(self, recorder: Recorder) -> None:
        """Add the caller's inputs."""
        for label, leaf, other in zip(self.labels, self.leaves, self.symbols.others, strict=True):
            node = self.placeholder(label)
            self.first_input = self.first_input or node
            node.meta["val"] = leaf
            if isinstance(leaf, Tensor):
                recorder.register(leaf, node, other)
                arg: Any = TensorArgument(node.name)
            else:
                arg = ConstantArgument(node.name, leaf)
            self.inputs.append(InputSpec(InputKind.USER_INPUT, arg, None))

    def lift(self, value: Tensor) -> Node:
        """Add an input for a tensor that is neither an argument nor module state."""
        if value.requires_grad and is_jit_tracing():
            raise RuntimeError(
                "Cannot insert a Tensor that requires grad as a constant. Consider making it a "
                f"parameter or input, or detaching the gradient\nTensor:\n{value}")
        count = sum("lifted_tensor_" in name for name in self.constants)
        path = next((f"{path}." for path, _ in reversed(self.recorder.stack.values()) if path), "")
        names = self.paths.get(id(value)) or [f"{path}lifted_tensor_{count}"]
        self.constants.update(dict.fromkeys(names, value.detach()))
        node = self.hidden_input(re.sub(r"\W", "_", f"c_{names[0]}"))
        node.meta["val"] = value
        self.add_spec(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), names[0]))
        return node

    # ---------------------------------------------------------------- the result

    def finish(self, recorder: Recorder, result: Any) -> ExportedProgram:
        """Add the output, drop dead nodes, and build the program."""
        leaves, out_spec = pytree.tree_flatten(result)
        nodes = [recorder.node_of(leaf) for leaf in leaves]
        self.graph.output(tuple(nodes))
        outputs = []
        for leaf, node in zip(leaves, nodes, strict=True):
            if isinstance(node, Node):
                symbolic = not isinstance(leaf, Tensor)
                arg: Any = (SymIntArgument if symbolic else TensorArgument)(node.name)
            else:
                arg = ConstantArgument("", leaf)
            outputs.append(OutputSpec(OutputKind.USER_OUTPUT, arg))
        self.graph.eliminate_dead_code(lambda node: node.is_impure() or _writes(node))
        self.symbols.check()
        signature = ExportGraphSignature(self.inputs, outputs)
        module = GraphModule(recorder.subgraphs, self.graph)
        program = ExportedProgram(
            wrap_gradient_regions(module, self.ambient), signature, self.state, self.constants,
            self.in_spec, out_spec, self.names, self.symbols.bounds(self.labels, self.leaves),
            (self.args, self.kwargs),
        )
        program._table = recorder.table
        program._module_aliases = self.calls.aliases
        program._module_call_graph = self.calls.entries(self.in_spec, out_spec, signature)
        return program

    def agrees(
        self, program: ExportedProgram, others: list[Any], is_allowed: bool = True
    ) -> bool:
        """Return whether graph and module give the same results on other inputs.

        `is_allowed`: whether the module accepts such inputs; if not, it agrees if it raises.
        """
        args, kwargs = pytree.tree_unflatten(others, self.in_spec)
        if any(_draws(node) for node in self.graph.nodes):  # random numbers differ
            return not is_allowed or self._can_run(program, args, kwargs)
        with no_grad():
            try:
                with exporting():
                    expected = pytree.tree_leaves(self.module(*args, **kwargs))
            except Exception:
                if is_allowed:
                    raise
                return True
            try:
                actual = pytree.tree_leaves(program.module()(*args, **kwargs))
            except Exception:
                return False
        return all(_is_close(a, b) for a, b in zip(actual, expected, strict=True))

    def _can_run(self, program: ExportedProgram, args: Any, kwargs: Any) -> bool:
        try:
            with no_grad():
                program.module()(*args, **kwargs)
        except Exception:
            return False
        return True

    def specialized(self) -> SpecializationError:
        """Return the error for a graph that is only valid for the example's sizes."""
        error = SpecializationError(
            f"Constraints violated ({', '.join(self.symbols.names)})! For more information, run "
            "with TORCH_LOGS=\"+dynamic\".\n  - the program computes otherwise for another length "
            "of a dynamic dimension"
        )
        explain(error, "Look for loops over a size and for sizes turned into numbers; take the "
                       "dimension out of `dynamic_shapes` if it is fixed.")
        return error


def _is_close(a: Any, b: Any) -> bool:
    """Return whether two results are equal up to rounding; non-tensors count as equal.
    """
    if not isinstance(b, Tensor) or b.is_complex():
        return True
    return a.shape == b.shape and bool(PUBLIC["torch"]["allclose"](
        a.double(), b.double(), rtol=1e-3, atol=1e-4, equal_nan=True))


def _writes(node: Node) -> bool:
    """Return whether a node writes to a tensor in place."""
    name = getattr(node.target, "__name__", "").partition(".")[0]
    return node.op == "call_function" and name.endswith("_") and not name.startswith("_")


def _draws(node: Node) -> bool:
    """Return whether a node draws random numbers."""
    name = getattr(node.target, "__name__", "").partition(".")[0]
    off = name.endswith("dropout") and len(node.args) > 2 and node.args[2] is False
    return name in RANDOM_OPERATORS and not off


def _list_parameter_names(signature: inspect.Signature, args: tuple, kwargs: dict) -> list[str]:
    """Return a name for each argument."""
    names = []
    parameters = [p for p in signature.parameters.values() if p.kind in _BY_POSITION]
    for i in range(len(args)):
        p = parameters[min(i, len(parameters) - 1)]
        starred = p.kind is inspect.Parameter.VAR_POSITIONAL
        names.append(f"{p.name}_{i - parameters.index(p)}" if starred else p.name)
    return names + list(kwargs)


def _list_labels(names: list[str], args: tuple, kwargs: dict) -> list[str]:
    """Return a name for each leaf: `x`, or `x_0` and `x_key` inside containers."""
    labels = []
    for name, value in zip(names, [*args, *kwargs.values()], strict=True):
        for path, _ in pytree.tree_leaves_with_path(value):
            parts = [str(getattr(k, "idx", getattr(k, "key", getattr(k, "name", k)))) for k in path]
            labels.append("_".join([name, *parts]))
    return labels


def _make_unique(labels: list[str], i: int) -> str:
    before = labels[:i].count(labels[i])
    return f"{labels[i]}_{before}" if before else labels[i]
