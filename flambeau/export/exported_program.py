"""ExportedProgram: a graph of operators with its parameters, buffers and constants."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from .._higher_order_ops.gradient_regions import inline_gradient_regions
from ..fx.codegen import _PyTreeCodeGen, _PyTreeInfo
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.module_paths import assign_attribute, copy_attribute, has_attribute
from ..fx.node import Node
from ..nn.module import Module
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from ..utils._sympy.numbers import int_oo
from ..utils._sympy.value_ranges import ValueRanges
from .decompositions import Decomposer
from .graph_signature import ConstantArgument, ExportGraphSignature, InputKind, InputSpec
from .symbolic.expressions import INFINITE

__all__ = ["ExportedProgram"]


class ExportedProgram:
    """The result of `torch.export.export`.

    `graph_module` holds the graph, which takes parameters and buffers as inputs;
    `graph_signature` tells what each input is; `module()` returns a module with the original
    calling convention.
    """

    def __init__(
        self, graph_module: GraphModule, graph_signature: ExportGraphSignature,
        state_dict: dict[str, Tensor], constants: dict[str, Tensor], in_spec: Any, out_spec: Any,
        names: list[str], bounds: dict[str, list[list[Any]]], example_inputs: Any,
    ) -> None:
        self._graph_module, self._graph_signature = graph_module, graph_signature
        self._state_dict, self._constants = state_dict, constants
        self._in_spec, self._out_spec, self._names, self._bounds = in_spec, out_spec, names, bounds
        self.example_inputs = example_inputs
        self.dialect = "TRAINING"
        self._module_call_graph: list[Any] = []
        self._table: Any = None  # SymbolTable of a traced program
        self._module_aliases: dict[str, str] = {}  # path -> the module's first path

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module that takes all inputs, state included."""
        return self._graph_module

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """The kind of each input and output."""
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and persistent buffers by path."""
        return self._state_dict

    @property
    def constants(self) -> dict[str, Tensor]:
        """Tensors that are neither arguments nor part of the module's state."""
        return self._constants

    tensor_constants = constants

    @property
    def range_constraints(self) -> dict[str, ValueRanges]:
        """The length range of each dynamic dimension, by symbol."""
        return {text[0] if text else f"{label}.size()[{d}]": _range(low, high)
                for label, dims in self._bounds.items()
                for d, (length, low, high, *text) in enumerate(dims) if length is None}

    @property
    def module_call_graph(self) -> list[Any]:
        """The submodules by path, with the signatures that the export preserved."""
        return self._module_call_graph

    def value_of(self, spec: InputSpec) -> Tensor:
        """Return the parameter, buffer or constant bound to an input."""
        lasting = spec.kind is InputKind.PARAMETER or \
            spec.kind is InputKind.BUFFER and spec.persistent is not False
        return (self.state_dict if lasting else self.constants)[str(spec.target)]

    def parameters(self) -> Iterator[Tensor]:
        """Yield the parameters."""
        for _, value in self.named_parameters():
            yield value

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the parameters with their paths."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def buffers(self) -> Iterator[Tensor]:
        """Yield the buffers."""
        for _, value in self.named_buffers():
            yield value

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with their paths."""
        for spec in self.graph_signature.input_specs:
            if spec.kind is InputKind.BUFFER:
                yield str(spec.target), self.value_of(spec)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` "
            "instead."
        )

    def module(self, check_guards: bool = True) -> GraphModule:
        """Return a module that runs the graph and owns the state as parameters and buffers.

        `check_guards`: raise AssertionError for inputs whose sizes violate the exported ones.
        """
        root = Module()
        paths: dict[str, str] = {}
        for spec in self.graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                continue
            assign_attribute(self.value_of(spec), root, str(spec.target))
            paths[spec.arg.name] = str(spec.target)
        for path, value in self.state_dict.items():  # aliases of the same tensors
            if path not in paths.values():
                assign_attribute(value, root, path)
        graph = Graph()
        values: dict[Any, Any] = {}
        inputs = [n for n in self.graph.nodes if n.op == "placeholder"]
        for node in [n for n in inputs if n.name not in paths]:
            values[node] = graph.node_copy(node)
        for node in [n for n in inputs if n.name in paths and n.users]:
            values[node] = graph.create_node("get_attr", paths[node.name])
        values.update({n: None for n in inputs if n not in values})  # nothing reads these
        for node in self.graph.nodes:
            if node.op == "get_attr":  # a branch's or loop body's graph
                copy_attribute(self.graph_module, root, str(node.target))
        result = graph.graph_copy(self.graph, values)
        graph.output(result)
        graph._codegen = _PyTreeCodeGen(_PyTreeInfo(self._names, self._in_spec, self._out_spec))
        module = self._include_all_state(root, graph, paths)
        if check_guards:
            module.register_forward_pre_hook(self._check_sizes, with_kwargs=True)
        module.train = _refuse_train
        module.eval = _refuse_eval
        return module

    def _include_all_state(self, root: Module, graph: Graph, paths: dict[str, str]) -> GraphModule:
        """Return the graph's module, including state that no node reads.

        `paths`: attribute path by input name.
        """
        for spec in self.graph_signature.input_specs:
            if spec.arg.name in paths and not any(
                n.op == "get_attr" and n.target == spec.target for n in graph.nodes
            ):
                with graph.inserting_before(graph.output_node()):
                    graph.get_attr(str(spec.target))
        module = GraphModule(root, graph)
        for path in (*self.constants, *self.graph_signature.non_persistent_buffers):
            if has_attribute(module, path):
                _make_transient(module, path)
        for node in list(graph.nodes):
            if node.op == "get_attr" and not node.users:
                graph.erase_node(node)
        module.recompile()
        return module

    def _check_sizes(self, module: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        names = [name for name in self._names[len(args):] if name in kwargs]
        if len(args) + len(kwargs) != len(self._names) or len(names) < len(kwargs):
            raise ValueError(
                "Trying to flatten user inputs with exported input tree spec: \n"
                f"{self._in_spec}\nbut actually got inputs with tree spec of: \n"
                f"{pytree.tree_structure((args, kwargs))}"
            )
        leaves = pytree.tree_leaves((args, {name: kwargs[name] for name in names}))
        for (label, bounds), leaf in zip(self._bounds.items(), leaves, strict=False):
            if not isinstance(leaf, Tensor):
                continue
            if leaf.ndim != len(bounds):
                raise AssertionError(f"Guard failed: len({label}.size()) == {len(bounds)}")
            for d, (length, low, high, *_) in enumerate(bounds):
                size = leaf.shape[d]
                if length is not None and size != length:
                    raise AssertionError(f"Guard failed: {label}.size()[{d}] == {length}")
                if not low <= size <= high:
                    sign, bound = ("<=", high) if size > high else (">=", low)
                    raise AssertionError(f"Guard failed: {label}.size()[{d}] {sign} {bound}")

    @property
    def verifier(self) -> Any:
        """The class that checks programs of this dialect."""
        from .._export.verifier import load_verifier

        return load_verifier(self.dialect)

    def _validate(self) -> None:
        """Raise SpecViolationError if the program breaks a rule of its dialect."""
        self.verifier().check(self)

    def _transform_do_not_use(self, *passes: Any) -> ExportedProgram:
        """Return the program after passes over its graph, with names of nodes in its signature."""
        from .._export.transformation import transform

        return transform(self, passes)

    def run_decompositions(self, decomp_table: Any = None, **options: Any) -> ExportedProgram:
        """Return a program with composite operators decomposed into core aten operators.

        `decomp_table`: replacement functions by operator (`torch.ops.aten.gelu.default`). Runs
        the graph once, on the example inputs. Keeps layers in training mode and in-place writes
        to tensors with other users.

        >>> program = torch.export.export(nn.Linear(3, 2), (torch.ones(1, 3),))
        >>> [str(n.target) for n in program.run_decompositions().graph.nodes
        ...  if n.op == "call_function"]
        ['aten.permute.default', 'aten.addmm.default']
        """
        if self._graph_module is not (module := inline_gradient_regions(self._graph_module)):
            inlined = _replace_graph_module(self, module)
            return inlined.run_decompositions(decomp_table, **options)
        values = self._list_example_values() | {
            node: getattr(self.graph_module, str(node.target))
            for node in self.graph.nodes if node.op == "get_attr"
        }
        is_dynamic = any(length is None for dims in self._bounds.values() for length, *_ in dims)
        decomposer = Decomposer(values, is_dynamic, decomp_table)
        graph = decomposer.copy(self.graph)
        result = copy.copy(self)
        result._graph_module = GraphModule(self.graph_module, graph)
        result._graph_signature = copy.deepcopy(self.graph_signature)
        for old, new in zip(self.graph.nodes, graph.nodes, strict=False):
            if old.op == new.op == "placeholder":
                new.meta["val"] = old.meta.get("val")
        before, after = (pytree.tree_leaves(g.output_node().args) for g in (self.graph, graph))
        names = {old.name: new.name for old, new in zip(before, after, strict=True)
                 if isinstance(old, Node)}
        for spec in result.graph_signature.output_specs:
            if not isinstance(spec.arg, ConstantArgument):
                spec.arg.name = names.get(spec.arg.name, spec.arg.name)
        result.dialect = "ATEN"
        return result

    def _list_example_values(self) -> dict[Node, Any]:
        """Return the value of each graph input, using the example inputs as arguments."""
        if self.example_inputs is None:
            error = NotImplementedError("run_decompositions: a program out of a file, which holds "
                                        "no example inputs")
            error.add_note("Assign them: program.example_inputs = ((x,), {})")
            raise error
        args, kwargs = self.example_inputs
        leaves = iter(pytree.tree_leaves((args, kwargs)))
        values: dict[Node, Any] = {}
        inputs = [n for n in self.graph.nodes if n.op == "placeholder"]
        for node, spec in zip(inputs, self.graph_signature.input_specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                values[node] = next(leaves)
            else:
                values[node] = self.value_of(spec)
        return values

    def __str__(self) -> str:
        text = self.graph_module.print_readable(print_output=False).replace("\n", "\n    ")
        bounds = self.range_constraints
        return (f"ExportedProgram:\n    {text}\nGraph signature: {self.graph_signature}\n"
                f"Range constraints: {bounds}\n")


def _range(low: int, high: int) -> ValueRanges:
    return ValueRanges(low, int_oo if high >= INFINITE else high)


def _replace_graph_module(program: ExportedProgram, module: GraphModule) -> ExportedProgram:
    result = copy.copy(program)
    result._graph_module = module
    return result


def _make_transient(root: Module, path: str) -> None:
    above, _, name = path.rpartition(".")
    owner = root.get_submodule(above)
    owner._non_persistent_buffers_set.add(name)


def _refuse_train(mode: bool = True) -> Any:
    """Raise NotImplementedError: export fixed the mode in the graph."""
    raise NotImplementedError("Calling train() is not supported yet.")


def _refuse_eval() -> Any:
    """Raise NotImplementedError: export fixed the mode in the graph."""
    raise NotImplementedError("Calling eval() is not supported yet.")
