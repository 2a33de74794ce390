"""export: one run of a module, recorded as a graph of aten's operators."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from ..native.foundation.public_names import class_of
from ..autograd.mode import no_grad
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import _RANDOM, Node
from ..fx.patcher import Patcher
from ..fx.trace_errors import explain
from ..nn.module import Module
from ..ops.core.operator import PUBLIC
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .dynamic_shapes import Dim, dynamic_dims
from .exported_program import ExportedProgram
from .graph_signature import (
    ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
    SymIntArgument, TensorArgument,
)
from .recorder import Recorder
from .sizes import SpecializationError, SymbolicSize

__all__ = ["export"]

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                inspect.Parameter.VAR_POSITIONAL)


def export(
    mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
    dynamic_shapes: Any = None, strict: bool = False, preserve_module_call_signature: Any = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """A module as a graph of aten's operators, by one run on example inputs.

    `dynamic_shapes`: for each input, by name or position, {dimension: torch.export.Dim} of those
    dimensions that may differ from call to call; all others are fixed. `strict` and the options
    behind it are accepted.
    RuntimeError, with the line and the fix, for a program that asks for a tensor's value, or that
    takes another way for another length of a dynamic dimension.

    >>> program = torch.export.export(nn.ReLU(), (torch.ones(3),))
    >>> program.graph_signature.user_inputs, program.module()(-torch.ones(3))
    (('input_1',), tensor([0., 0., 0.]))
    """
    if not isinstance(mod, Module):
        raise ValueError(
            f"Expected `mod` to be an instance of `torch.nn.Module`, got {class_of(mod)}."
        )
    if not isinstance(args, tuple):
        raise TypeError(
            f"Expecting `args` to be a tuple of example positional inputs, got {class_of(args)}"
        )
    return _Export(mod, args, kwargs or {}, dynamic_shapes).run()


class _Export:
    """One export."""

    def __init__(self, module: Module, args: tuple, kwargs: dict[str, Any], spec: Any) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        signature = inspect.signature(module.forward)
        bound = signature.bind(*args, **kwargs)
        names = _parameter_names(signature, args, kwargs)
        self.names = names
        self.leaves, self.in_spec = pytree.tree_flatten((args, kwargs))
        labels = _labels(names, args, kwargs)
        self.labels = [_unique(labels, i) for i in range(len(labels))]
        self.dims = dynamic_dims(spec, _positional(signature, bound), args, kwargs)
        self.graph = Graph()
        self.inputs: list[InputSpec] = []
        self.state: dict[str, Any] = {}
        self.constants: dict[str, Tensor] = {}
        self.first_input: Node | None = None

    def run(self) -> ExportedProgram:
        """The program."""
        others = _twins(self.leaves, self.dims)
        recorder = Recorder(self.graph, self.lift, bool(self.dims))
        self.add_state(recorder)
        for label, leaf, other in zip(self.labels, self.leaves, others, strict=True):
            self.add_input(recorder, label, leaf, other)
        buffers = {name: b.clone() for name, b in self.module.named_buffers()}
        try:
            with no_grad(), Patcher() as patcher:
                self.follow_modules(patcher, recorder)
                with recorder:
                    result = self.module(*self.args, **self.kwargs)
        finally:
            with no_grad():
                for name, b in self.module.named_buffers():
                    b.copy_(buffers[name])
        program = self.finish(recorder, result)
        if self.dims:
            self.verify(program, others)
        return program

    # ---------------------------------------------------------------- inputs

    def add_state(self, recorder: Recorder) -> None:
        """Add an input for each parameter and buffer."""
        lasting = self.module.state_dict().keys()
        members = [(InputKind.PARAMETER, "p_", self.module.named_parameters()),
                   (InputKind.BUFFER, "b_", self.module.named_buffers())]
        for kind, prefix, named in members:
            for path, value in named:
                node = self.placeholder(re.sub(r"\W", "_", prefix + path))
                recorder.know(value, node)
                self.state[path] = value
                persistent = path in lasting if kind is InputKind.BUFFER else None
                self.inputs.append(InputSpec(kind, TensorArgument(node.name), path, persistent))

    def placeholder(self, name: str) -> Node:
        """A node for an input, which is called otherwise if the name is taken."""
        node = self.graph.placeholder(name)
        node.target = node.name
        return node

    def add_input(self, recorder: Recorder, label: str, leaf: Any, other: Any) -> None:
        """Add an input that the caller passes."""
        node = self.placeholder(label)
        self.first_input = self.first_input or node
        node.meta["val"] = leaf
        if isinstance(leaf, Tensor):
            recorder.know(leaf, node, other)
            arg: Any = TensorArgument(node.name)
        else:
            arg = ConstantArgument(node.name, leaf)
        self.inputs.append(InputSpec(InputKind.USER_INPUT, arg, None))

    def lift(self, value: Tensor) -> Node:
        """Add an input for a tensor that is neither passed nor part of the module's state."""
        name = f"lifted_tensor_{len(self.constants)}"
        self.constants[name] = value.detach()
        root = self.graph._root
        before = self.first_input if self.first_input is not None else root.next
        with self.graph.inserting_before(before):
            node = self.placeholder(f"c_{name}")
        node.meta["val"] = value
        place = next((i for i, s in enumerate(self.inputs) if s.kind is InputKind.USER_INPUT),
                     len(self.inputs))
        spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), name)
        self.inputs.insert(place, spec)
        return node

    def follow_modules(self, patcher: Patcher, recorder: Recorder) -> None:
        """Has nodes note which modules they are called in."""
        paths = {module: path for path, module in self.module.named_modules()}
        call: Any = Module.__call__

        @functools.wraps(call)
        def noted(module: Any, *args: Any, **kwargs: Any) -> Any:
            path = paths.get(module)
            if path is None:
                return call(module, *args, **kwargs)
            before = recorder.stack
            kind = type(module)
            recorder.stack = {**before, f"L__self___{path}": (path, kind)}
            try:
                return call(module, *args, **kwargs)
            finally:
                recorder.stack = before

        patcher.patch_method(Module, "__call__", noted, deduplicate=False)

    # ---------------------------------------------------------------- the result

    def finish(self, recorder: Recorder, result: Any) -> ExportedProgram:
        """Add the return, and drop what nobody uses."""
        leaves, out_spec = pytree.tree_flatten(result)
        nodes = [recorder.node_of(leaf) for leaf in leaves]
        self.graph.output(tuple(nodes))
        outputs = []
        for leaf, node in zip(leaves, nodes, strict=True):
            if isinstance(node, Node):
                symbolic = isinstance(leaf, SymbolicSize)
                arg: Any = (SymIntArgument if symbolic else TensorArgument)(node.name)
            else:
                arg = ConstantArgument("", leaf)
            outputs.append(OutputSpec(OutputKind.USER_OUTPUT, arg))
        self.graph.eliminate_dead_code(lambda node: node.is_impure() or _writes(node))
        module = GraphModule({}, self.graph)
        signature = ExportGraphSignature(self.inputs, outputs)
        return ExportedProgram(
            module, signature, self.state, self.constants, self.in_spec, out_spec,
            self.names, self.bounds(), (self.args, self.kwargs),
        )

    def bounds(self) -> dict[str, list[list[Any]]]:
        """For each value that is passed, by dimension: [its length, least, greatest].

        A length None is dynamic.
        """
        result: dict[str, list[list[Any]]] = {}
        for i, (label, leaf) in enumerate(zip(self.labels, self.leaves, strict=True)):
            result[label] = []
            if isinstance(leaf, Tensor):
                dims = self.dims.get(i, {})
                result[label] = [
                    [None, dims[d].min, dims[d].max] if d in dims else [int(n), int(n), int(n)]
                    for d, n in enumerate(leaf.shape)
                ]
        return result

    def verify(self, program: ExportedProgram, others: list[Any]) -> None:
        """The graph has to compute for other sizes what the program does."""
        args, kwargs = pytree.tree_unflatten(others, self.in_spec)
        with no_grad():
            try:
                got = pytree.tree_leaves(program.module()(*args, **kwargs))
            except Exception as error:
                raise self.specialized() from error
            if any(_draws(node) for node in self.graph.nodes):  # random numbers differ
                return
            wanted = pytree.tree_leaves(self.module(*args, **kwargs))
        for a, b in zip(got, wanted, strict=True):
            same = a.shape == b.shape and bool(PUBLIC["torch"]["allclose"](
                a.double(), b.double(), rtol=1e-3, atol=1e-4, equal_nan=True)
            ) if isinstance(b, Tensor) and not b.is_complex() else True
            if not same:
                raise self.specialized()

    def specialized(self) -> SpecializationError:
        """The error of a program whose graph holds for the example's sizes alone."""
        names = sorted({getattr(d, "__name__", repr(d)) for ds in self.dims.values()
                        for d in ds.values()})
        error = SpecializationError(
            f"Constraints violated ({', '.join(names)})! For more information, run with "
            "TORCH_LOGS=\"+dynamic\".\n  - the program computes otherwise for another length of a "
            "dynamic dimension"
        )
        explain(error, "Look for loops over a size and for sizes turned into numbers; take the "
                       "dimension out of `dynamic_shapes` if it is fixed.")
        return error


def _writes(node: Node) -> bool:
    """Whether a node changes a tensor in place, which others may see."""
    name = getattr(node.target, "__name__", "").partition(".")[0]
    return node.op == "call_function" and name.endswith("_") and not name.startswith("_")


def _draws(node: Node) -> bool:
    """Whether a node draws random numbers."""
    name = getattr(node.target, "__name__", "").partition(".")[0]
    off = name.endswith("dropout") and len(node.args) > 2 and node.args[2] is False
    return name in _RANDOM and not off


def _positional(signature: inspect.Signature, bound: inspect.BoundArguments) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [n for n, p in signature.parameters.items() if p.kind in kinds]


def _parameter_names(signature: inspect.Signature, args: tuple, kwargs: dict) -> list[str]:
    """A name for each argument that is passed."""
    names = []
    parameters = [p for p in signature.parameters.values() if p.kind in _BY_POSITION]
    for i in range(len(args)):
        p = parameters[min(i, len(parameters) - 1)]
        starred = p.kind is inspect.Parameter.VAR_POSITIONAL
        names.append(f"{p.name}_{i - parameters.index(p)}" if starred else p.name)
    return names + list(kwargs)


def _labels(names: list[str], args: tuple, kwargs: dict) -> list[str]:
    """A name for each leaf: `x`, or `x_0`, `x_key` inside a container."""
    labels = []
    for name, value in zip(names, [*args, *kwargs.values()], strict=True):
        for path, _ in pytree.tree_leaves_with_path(value):
            parts = [str(getattr(k, "idx", getattr(k, "key", getattr(k, "name", k)))) for k in path]
            labels.append("_".join([name, *parts]))
    return labels


def _unique(labels: list[str], i: int) -> str:
    before = labels[:i].count(labels[i])
    return f"{labels[i]}_{before}" if before else labels[i]


def _twins(leaves: list[Any], dims: dict[int, dict[int, Any]]) -> list[Any]:
    """The inputs with other lengths of their dynamic dimensions, and like values."""
    lengths: dict[Any, int] = {}
    others = []
    take: Callable = PUBLIC["torch"]["index_select"]
    count: Callable = PUBLIC["torch"]["arange"]
    for i, leaf in enumerate(leaves):
        for d, dim in dims.get(i, {}).items():
            n = int(leaf.shape[d])
            if isinstance(dim, Dim):
                root = (n - dim.offset) // dim.factor
                most = dim.root.max
                other = lengths.setdefault(id(dim.root), root + 1 if root < most else root - 1)
                new = other * dim.factor + dim.offset
            else:
                new = lengths.setdefault(n, n + 1 if n < dim.max else n - 1)
            leaf = take(leaf, d, count(new) % max(n, 1))
        others.append(leaf)
    return others
