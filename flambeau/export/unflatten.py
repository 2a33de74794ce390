"""unflatten: turn an exported program back into a tree of modules, one per module it called.

Each node of the flat graph records the module call it came from. Each call becomes a separate
graph: values read from outside become inputs, values read by others become outputs.
"""

from __future__ import annotations

import abc
import operator
from collections.abc import Iterator
from typing import Any

from ..fx.codegen import _PyTreeCodeGen, _PyTreeInfo
from ..fx.graph import Graph
from ..fx.interpreter import Interpreter
from ..fx.module_paths import assign_attribute
from ..fx.node import Node, map_arg
from ..nn.module import Module
from ..utils import _pytree as pytree
from .exported_program import ExportedProgram
from .graph_signature import ConstantArgument, InputKind
from .module_calls import ModuleCallSignature

__all__ = ["FlatArgsAdapter", "InterpreterModule", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter(abc.ABC):
    """Adapts arguments whose nesting differs from the exported one."""

    @abc.abstractmethod
    def adapt(self, target_spec: pytree.TreeSpec, input_spec: pytree.TreeSpec,
              input_args: list[Any], metadata: Any = None, obj: Any = None) -> list[Any]:
        """Return the leaves in `target_spec`'s order, given leaves in `input_spec`'s."""


class InterpreterModule(Module):
    """A module that runs its graph node by node.

    If the program calls it several times and uses different outputs, each call has a separate
    graph, and successive calls cycle through them.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self._call_graphs: list[Graph] = []
        self._calls = 0
        graph._owning_module = self  # type: ignore[assignment]

    def add_call(self, graph: Graph) -> None:
        """Add the graph of another call."""
        if not self._call_graphs:
            self.graph = graph
        self._call_graphs.append(graph)
        graph._owning_module = self  # type: ignore[assignment]

    def merge_calls(self) -> None:
        """Keep one graph if all calls have the same one."""
        if len(set(map(_format_graph, self._call_graphs))) < 2:
            self._call_graphs = []

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph on its inputs, by position and then by name."""
        graph = self.graph
        if self._call_graphs:
            graph = self._call_graphs[self._calls % len(self._call_graphs)]
            self._calls += 1
        codegen: Any = graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            names = codegen.pytree_info.orig_args[len(args):]
            words = {name: kwargs[name] for name in names if name in kwargs}
            return Interpreter(self, graph=graph).run(args, words)
        names = [n.target for n in graph.nodes if n.op == "placeholder"]
        flat = [*args, *(kwargs[str(name)] for name in names[len(args):])]
        return Interpreter(self, graph=graph).run(*flat, enable_io_processing=False)


class UnflattenedModule(Module):
    """A program as a tree of modules, called like the exported module."""

    def __init__(self, program: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None
                 ) -> None:
        super().__init__()
        self.graph_signature = program.graph_signature
        self.graph = Graph()
        self.flat_args_adapter = flat_args_adapter
        self._program_in_spec, self._program_out_spec = program._in_spec, program._out_spec
        object.__setattr__(self, "_flambeau_program", program)
        self._add_state(program)
        paths = [entry.fqn for entry in program.module_call_graph]
        _Unflattening(self, program).run()
        for module in self.modules():
            if isinstance(module, InterpreterModule):
                module.merge_calls()
        self._arrange(paths)

    def _add_state(self, program: ExportedProgram) -> None:
        values: dict[str, Any] = dict(program.state_dict) | program.constants
        transient = set(program.graph_signature.non_persistent_buffers)
        for path, value in values.items():
            above = path.rpartition(".")[0]
            parts = above.split(".") if above else []
            for i in range(len(parts)):
                _find_module(self, ".".join(parts[: i + 1]))
            assign_attribute(value, self, path)
            owner = self.get_submodule(above)
            if path in transient or path in program.constants:
                owner._non_persistent_buffers_set.add(path.rpartition(".")[2])

    def _arrange(self, paths: list[str]) -> None:
        """Give each module all its names, in the order of the module that was exported."""
        originals = dict(zip(paths, _find_shared(self.__dict__["_flambeau_program"], paths),
                             strict=True))
        for path in filter(None, paths):
            source = originals[path]
            if source != path:
                above, _, name = path.rpartition(".")
                _find_module(self, above)._modules[name] = _find_module(self, source)
            else:
                _find_module(self, path)
        places = {path: i for i, path in enumerate(paths)}
        for prefix, module in self.named_modules():
            names = sorted(module._modules, key=lambda name: places.get(
                f"{prefix}.{name}" if prefix else name, len(places)))
            module._modules.update({name: module._modules.pop(name) for name in names})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the tree of graphs."""
        program: ExportedProgram = self.__dict__["_flambeau_program"]
        names = [name for name in program._names[len(args):] if name in kwargs]
        words = {name: kwargs[name] for name in names} | kwargs
        leaves, spec = pytree.tree_flatten((args, words))
        if spec != self._program_in_spec:
            if self.flat_args_adapter is None:
                raise TypeError(
                    "There is no flat args adapter sepcified. "
                    "Are you sure you are calling this with the right arguments? "
                )
            leaves = self.flat_args_adapter.adapt(
                target_spec=self._program_in_spec, input_spec=spec, input_args=leaves)
            if len(leaves) != self._program_in_spec.num_leaves:
                raise TypeError(
                    f"Flat args adaption failed, number of args mismatch Adatped: {len(leaves)} \n"
                    f"Exported module: {self._program_in_spec.num_leaves}"
                )
            args, words = pytree.tree_unflatten(leaves, self._program_in_spec)
        program._check_sizes(self, args, words)
        for module in self.modules():
            if isinstance(module, InterpreterModule):
                module._calls = 0
        results = Interpreter(self, graph=self.graph).run(*leaves, enable_io_processing=False)
        return pytree.tree_unflatten(results, self._program_out_spec)


def unflatten(
    module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None
) -> UnflattenedModule:
    """Return a program as a tree of modules, with the paths of the exported module.

    `flat_args_adapter`: adapts arguments whose nesting differs from the exported ones.

    >>> model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    >>> tree = torch.export.unflatten(torch.export.export(model, (torch.ones(1, 4),)))
    >>> [path for path, _ in tree.named_children()], tree(torch.ones(3, 4)[:1]).shape
    (['0', '1'], torch.Size([1, 2]))
    """
    return UnflattenedModule(module, flat_args_adapter)


def _find_module(root: Module, path: str) -> Any:
    """Return the module at a path; add one if missing."""
    module = root
    for name in path.split(".") if path else ():
        if module._modules.get(name) is None:
            module.add_module(name, InterpreterModule(_create_empty()))
        module = module._modules[name]
    return module


def _create_empty() -> Graph:
    graph = Graph()
    graph.output(())
    return graph


def _find_shared(program: ExportedProgram, paths: list[str]) -> list[str]:
    """Return, for each path, the first path of the same module."""
    return [program._module_aliases.get(path, path) for path in paths]


class _Frame:
    """The graph of one module call while it is being built."""

    def __init__(self, graph: Graph, path: str, key: str, above: _Frame | None) -> None:
        self.graph, self.path, self.key, self.above = graph, path, key, above
        self.values: dict[Node, Node] = {}  # keyed by node of the flat graph
        self.reads: list[Node] = []  # nodes of the flat graph read from the caller
        self.last_input: Node | None = None
        self.begin: Node | None = None


class _Unflattening:
    """Copies each node of a flat graph into the graph of the call it came from."""

    def __init__(self, root: UnflattenedModule, program: ExportedProgram) -> None:
        self.root, self.program = root, program
        self.nodes = list(program.graph.nodes)
        self.state: dict[str, str] = {
            s.arg.name: str(s.target) for s in program.graph_signature.input_specs
            if s.kind is not InputKind.USER_INPUT
        }
        values: dict[str, Any] = dict(program.state_dict) | program.constants
        self.names = {path: [p for p, v in values.items() if v is values[path]]
                      for path in self.state.values()}
        self.signatures = {e.fqn: e.signature for e in program.module_call_graph
                           if e.fqn and e.signature is not None}
        self.by_name = {node.name: node for node in self.nodes}

    def run(self) -> None:
        """Build the root's graph and the tree below it."""
        frame = _Frame(self.root.graph, "", "", None)
        position = 0
        while position < len(self.nodes):
            node = self.nodes[position]
            if node.op == "placeholder":
                if node.name not in self.state:
                    frame.values[node] = frame.graph.node_copy(node)
                position += 1
            elif node.op == "output":
                frame.graph.output(map_arg(node.args[0], lambda n: self.value(frame, n)))
                position += 1
            else:
                position = self.copy(frame, position, depth=1)
        frame.graph._owning_module = self.root  # type: ignore[assignment]
        for node in list(frame.graph.nodes):
            if node.op == "get_attr" and not node.users:
                frame.graph.erase_node(node)

    def copy(self, frame: _Frame, position: int, depth: int) -> int:
        """Copy a node, or the call that it begins; return the next position."""
        node = self.nodes[position]
        calls = _list_calls(node)
        if len(calls) > depth:
            return self.enter(frame, position, depth, *calls[depth])
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: self.value(frame, n))
        copied = frame.graph.create_node(node.op, node.target, args, kwargs, node.name)
        if node.op == "get_attr":  # the graph of a branch or loop body
            module = getattr(self.program.graph_module, str(node.target))
            _find_module(self.root, frame.path).add_module(str(node.target), module)
        copied.meta = node.meta.copy()
        frame.values[node] = copied
        return position + 1

    def enter(self, above: _Frame, position: int, depth: int, key: str, path: str) -> int:
        """Copy the nodes of one call into their own graph, and call it."""
        end = position
        while end < len(self.nodes) and len(calls := _list_calls(self.nodes[end])) > depth and \
                calls[depth][0] == key:
            end += 1
        frame = _Frame(Graph(), path, key, above)
        signature = self.signatures.get(path)
        if signature is not None:
            self.add_signature_inputs(frame, signature)
        inside = self.nodes[position:end]
        while position < end:
            position = self.copy(frame, position, depth + 1)
        members = set(inside)
        outputs = [n for n in inside if any(user not in members for user in n.users)]
        if signature is not None:
            self.close_with_signature(above, frame, signature)
        else:
            self.close(above, frame, outputs)
        return end

    # ---------------------------------------------------------------- values

    def value(self, frame: _Frame, node: Node) -> Node:
        """Return a frame's equivalent of a flat graph node: its copy, an attribute or an input."""
        known = frame.values.get(node)
        if known is not None:
            return known
        path = self.attribute(frame, node)
        if path is None and frame.above is not None:
            return self.read_from_above(frame, node)
        if path is None:
            raise RuntimeError(f"torch.export.unflatten: {node} is computed nowhere")
        first = next((n for n in frame.graph.nodes if n.op not in ("placeholder", "get_attr")),
                     frame.graph._root)
        with frame.graph.inserting_before(first):
            result = frame.graph.create_node("get_attr", path, (), {}, path.replace(".", "_"))
        result.meta = node.meta.copy()
        frame.values[node] = result
        return result

    def attribute(self, frame: _Frame, node: Node) -> str | None:
        """Return a parameter's or buffer's path relative to the frame's module."""
        prefix = f"{frame.path}." if frame.path else ""
        names = self.names.get(self.state.get(node.name, ""), ())
        return next((n.removeprefix(prefix) for n in names if n.startswith(prefix)), None)

    def read_from_above(self, frame: _Frame, node: Node) -> Node:
        """Add an input for a value computed by the caller."""
        first = next((n for n in frame.graph.nodes if n.op != "placeholder"), frame.graph._root)
        with frame.graph.inserting_before(first):
            result = frame.graph.create_node("placeholder", node.name, (), {}, node.name)
        result.meta = node.meta.copy()
        frame.reads.append(node)
        frame.values[node] = result
        return result

    # ---------------------------------------------------------------- calls

    def close(self, above: _Frame, frame: _Frame, outputs: list[Node]) -> None:
        """Close a frame: inputs are the values it reads, outputs the values others read."""
        inner = [frame.values[n] for n in outputs]
        single = len(inner) == 1
        frame.graph.output(inner[0] if single else tuple(inner))
        args = tuple(self.value(above, n) for n in frame.reads)
        call = self.call(above, frame, args, {})
        values = [n.meta.get("val") for n in outputs]
        call.meta["val"] = values[0] if single else tuple(values)
        if single:
            above.values[outputs[0]] = call
            return
        for i, node in enumerate(outputs):
            above.values[node] = _create_item(above.graph, call, i, node)

    def add_signature_inputs(self, frame: _Frame, signature: ModuleCallSignature) -> None:
        """Add inputs for all arguments of a module whose signature is preserved."""
        for i, argument in enumerate(signature.inputs):
            constant = isinstance(argument, ConstantArgument)
            node = None if constant else self.by_name[argument.name]
            result = frame.graph.placeholder(f"arg_{i}" if node is None else node.name)
            result.meta["val"] = argument.value if node is None else node.meta.get("val")
            if node is not None:
                frame.values[node] = result

    def close_with_signature(self, above: _Frame, frame: _Frame, signature: ModuleCallSignature
                             ) -> None:
        """Close a frame whose module keeps the exported module's signature."""
        if frame.reads:
            raise NotImplementedError(
                f"torch.export.unflatten: {frame.path} reads {', '.join(map(str, frame.reads))}, "
                "which is none of its arguments"
            )

        def at(f: _Frame, argument: Any) -> Any:
            if isinstance(argument, ConstantArgument):
                return argument.value
            return self.value(f, self.by_name[argument.name])

        frame.graph.output(tuple(at(frame, o) for o in signature.outputs))
        names = [f"arg_{i}" for i in range(signature.in_spec.num_children)]
        names = signature.forward_arg_names or names
        frame.graph._codegen = _PyTreeCodeGen(
            _PyTreeInfo(names, signature.in_spec, signature.out_spec))
        graph = above.graph
        flat = [at(above, argument) for argument in signature.inputs]
        structure = graph.call_function(pytree.tree_unflatten, (
            flat, self.spec(above, signature.in_spec)))
        args, words = (_create_item(graph, structure, i) for i in range(2))
        args_spec, words_spec = signature.in_spec.children()
        positional = tuple(_create_item(graph, args, i) for i in range(args_spec.num_children))
        keywords = {k: _create_item(graph, words, k) for k in words_spec.context}
        call = self.call(above, frame, positional, keywords)
        leaves = graph.call_function(pytree.tree_leaves, (call,))
        for i, argument in enumerate(signature.outputs):
            if not isinstance(argument, ConstantArgument):
                node = self.by_name[argument.name]
                above.values[node] = _create_item(graph, leaves, i, node)

    def spec(self, frame: _Frame, spec: pytree.TreeSpec) -> Node:
        """Return a node that holds a tree spec."""
        module = _find_module(self.root, frame.path)
        name = f"_spec_{sum(k.startswith('_spec_') for k in vars(module))}"
        object.__setattr__(module, name, spec)
        node = frame.graph.create_node("get_attr", name)
        node.meta["val"] = spec
        return node

    def call(self, above: _Frame, frame: _Frame, args: tuple, kwargs: dict[str, Any]) -> Node:
        """Give a frame's module its graph, and call it."""
        _find_module(self.root, frame.path).add_call(frame.graph)
        return above.graph.create_node("call_module", self.relative(above, frame.path), args,
                                       kwargs, frame.path.rpartition(".")[2])

    def relative(self, frame: _Frame, path: str) -> str:
        """Return a module's path relative to the frame's; modules above it get an alias."""
        prefix = f"{frame.path}." if frame.path else ""
        if path.startswith(prefix):
            return path.removeprefix(prefix)
        name = path.replace(".", "_")
        _find_module(self.root, frame.path)._modules[name] = _find_module(self.root, path)
        return name


def _list_calls(node: Node) -> list[tuple[str, str]]:
    """Return (key, module path) for each call that contains a node, outermost first."""
    stack = node.meta.get("nn_module_stack") or {}
    calls = [(key, path) for key, (path, _) in stack.items()]
    return calls if calls and calls[0][1] == "" else [("", ""), *calls]


def _create_item(graph: Graph, value: Node, key: Any, like: Node | None = None) -> Node:
    node = graph.call_function(operator.getitem, (value, key))
    if like is not None:
        node.meta = like.meta.copy()
    return node


def _format_graph(graph: Graph) -> str:
    """Return a graph as text with numbered nodes: equal graphs give equal text."""
    numbers = {node: i for i, node in enumerate(graph.nodes)}

    def shown(node: Node) -> Iterator[str]:
        yield node.op
        yield "" if node.op == "placeholder" else str(node.target)
        yield str(map_arg((node.args, node.kwargs), lambda n: f"%{numbers[n]}"))

    return "\n".join(" ".join(shown(node)) for node in graph.nodes)
