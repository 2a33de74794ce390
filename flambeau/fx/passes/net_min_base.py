"""Find the nodes of a graph that fail or differ when it runs in a second way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ..graph_module import GraphModule
from ..node import Node, map_arg
from .minimizer_traversals import (
    _FAILURES,
    FxNetMinimizerBadModuleError,
    FxNetMinimizerResultMismatchError,
    FxNetMinimizerRunFuncError,
    Traversals,
    _MinimizerSettingBase,
)
from .shape_prop import ShapeProp
from .split_utils import split_by_tags
from .submodule_inputs import generate_inputs_for_submodules
from .tools_common import (
    CALLABLE_NODE_OPS,
    FxNetAccFusionsFinder,
    Names,
    NodeList,
    NodeSet,
    TensorOrTensors,
    Tensors,
)

__all__ = ["FxNetMinimizerBadModuleError", "FxNetMinimizerResultMismatchError",
           "FxNetMinimizerRunFuncError"]


class _MinimizerBase(Traversals):
    """Runs parts of a graph in two ways, compares, and narrows down where they differ.

    Derive from it and define `run_a(mod, inputs, report_idx)` and `run_b`: the reference, and the
    way in question.

    Arguments:
        module: the graph module.
        sample_input: its arguments.
        compare_fn: called with both results and the names of the nodes; returns a number for the
            report and whether the results agree.
        settings: see `_MinimizerSettingBase`.
        module_exporter: called with inputs, submodule and name of each submodule that differs.
        exclusion_fn: called with a list of nodes, its start and its end; removes nodes from it.

    >>> from flambeau.fx.passes import net_min_base
    >>> class Halved(net_min_base._MinimizerBase):
    ...     def run_a(self, mod, inputs, report_idx=-1):
    ...         return mod(*inputs)
    ...     def run_b(self, mod, inputs, report_idx=-1):
    ...         wrong = any(n.name == "sin" for n in mod.graph.nodes)
    ...         return mod(*inputs) + wrong
    ...     def print_report(self, report):
    ...         pass
    >>> gm = torch.fx.symbolic_trace(lambda x: x.cos().sin().exp())
    >>> agree = lambda a, b, names: (float((a - b).abs().max()), torch.equal(a, b))
    >>> settings = net_min_base._MinimizerSettingBase()
    >>> import contextlib, io
    >>> with contextlib.redirect_stdout(io.StringIO()):
    ...     culprits = Halved(gm, (torch.ones(2),), agree, settings).minimize()
    >>> culprits
    {sin}
    """

    def __init__(
        self, module: GraphModule, sample_input: Tensors,
        compare_fn: Callable[[TensorOrTensors, TensorOrTensors, Names], tuple[float, bool]],
        settings: _MinimizerSettingBase,
        module_exporter: Callable[[Tensors, GraphModule, str], None] | None = None,
        exclusion_fn: Callable[[NodeList, int, int], None] | None = None,
    ) -> None:
        if not isinstance(module, GraphModule):
            raise AssertionError(f"Expected GraphModule, got {type(module)}")
        self.module, self.sample_input = module, sample_input
        self.compare_fn, self.settings = compare_fn, settings
        self.module_exporter, self.exclusion_fn = module_exporter, exclusion_fn
        self.results: dict[Any, Any] = {}  # what compare_fn returned, by the outputs' names
        self.reports = []
        self.iteration = 0
        self.run_shape_prop()
        calls = {node for node in module.graph.nodes if node.op in CALLABLE_NODE_OPS}
        self.fusions = FxNetAccFusionsFinder(module, calls)()
        sources = [node.name for node in module.graph.nodes if node.op == "placeholder"]
        if len(sources) != len(sample_input):
            raise AssertionError(f"Placeholder count ({len(sources)}) does not match "
                                 f"sample_input count ({len(sample_input)})")
        # Results of run_a and run_b by node: what later submodules are called with.
        self.a_outputs: dict[str, Any] = dict(zip(sources, sample_input, strict=True))
        self.b_outputs = dict(self.a_outputs)

    def run_shape_prop(self) -> None:
        """Annotate the nodes with shapes. Override it for other ways."""
        ShapeProp(self.module).propagate(*self.sample_input)

    def run_a(self, mod: GraphModule, inputs: Tensors, report_idx: int = -1) -> TensorOrTensors:
        """Run a submodule in the reference's way."""
        raise RuntimeError("run_a() is not implemented.")

    def run_b(self, mod: GraphModule, inputs: Tensors, report_idx: int = -1) -> TensorOrTensors:
        """Run a submodule in the way in question."""
        raise RuntimeError("run_b() is not implemented.")

    def minimize(
        self, start: str | None = None, end: str | None = None,
        skip_nodes: list[str] | None = None, find_last_node: bool | None = None,
    ) -> NodeSet:
        """Return the nodes that fail or differ, by the method of the settings.

        Arguments:
            start, end: names of the first and last node to look at; None: the graph's.
            skip_nodes: names of nodes that "skip" leaves out.
            find_last_node: for "block": look for the last node only (True) or the first (False).
        """
        print(self.settings)
        print(self.module.graph)
        nodes = self._collect_nodes(start, end)
        method = self.settings.traverse_method
        if method == "skip":
            if skip_nodes is None:
                raise RuntimeError(
                    "'skip_nodes' can't be None when 'traverse_method' is 'skip'."
                )
            return self._skip_traverse(nodes, skip_nodes)
        if method == "block":
            return self._block_traverse(nodes, find_last_node)
        if method not in ("sequential", "binary", "accumulate", "defined"):
            raise RuntimeError(f"Unknown traverse method {method}!")
        traverse: Callable[[NodeList], NodeSet] = getattr(self, f"_{method}_traverse")
        return traverse(nodes)

    def run_nodes(self, start: str | None = None, end: str | None = None) -> None:
        """Run the stretch of nodes from `start` to `end` in both ways; print how they differ."""
        nodes = self._collect_nodes(start, end)
        names = [node.name for node in nodes] if self.settings.return_intermediate else []
        try:
            self._check(self._add_groups(nodes), names)
        except _FAILURES as error:
            print(error)

    # ---- running one part ----

    def _collect_nodes(self, start: str | None, end: str | None) -> NodeList:
        """Return the calls from one named node to another, both included."""
        calls = [node for node in self.module.graph.nodes if node.op in CALLABLE_NODE_OPS]
        names = [node.name for node in calls]
        first = 0 if start is None else names.index(start) if start in names else len(names)
        last = names.index(end) if end in names else len(names) - 1
        return calls[first:last + 1]

    def _check(self, nodes: NodeSet, names: Names, report_idx: int = -1) -> None:
        """Run nodes as a submodule in both ways, and raise one of `_FAILURES` if they differ."""
        split_module, name = self._build_submodule(nodes)
        self._run_and_compare(split_module, name, names, report_idx)

    def _tag_nodes(self, selected_nodes: NodeSet) -> None:
        """Tag the chosen nodes "minimize", what depends on them "main_1", the rest "main_0"."""
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            above = {n.tag for n in node.all_input_nodes if n.op in CALLABLE_NODE_OPS}
            depends = not above.isdisjoint(("minimize", "main_1"))
            node.tag = "minimize" if node in selected_nodes else "main_1" if depends else "main_0"

    def _build_submodule(self, nodes: NodeSet) -> tuple[GraphModule, str]:
        """Split the module so that one submodule has exactly these nodes; return both."""
        self._tag_nodes(nodes)
        split_module = split_by_tags(self.module, ["main_0", "minimize", "main_1"])
        assert isinstance(split_module, GraphModule)
        names = [name for name, _ in split_module.named_children() if "minimize" in name]
        if not names:
            raise FxNetMinimizerBadModuleError(
                f"Minimize submodule was not found with nodes {nodes}"
            )
        if len(names) > 1:
            raise FxNetMinimizerBadModuleError(
                f"Expected only one minimize submodule with nodes {nodes}"
            )
        return split_module, names[0]

    def _get_submod_inputs(
        self, main_module: GraphModule, submod_path: str
    ) -> tuple[Any, Any]:
        """Return a submodule's inputs for run_a and run_b: stored results, or those of a run."""
        submodule = getattr(main_module, submod_path)
        names = [node.name for node in submodule.graph.nodes if node.op == "placeholder"]
        if set(names) <= self.a_outputs.keys():
            for_a = [self.a_outputs[name] for name in names]
            for_b = [self.b_outputs[name] for name in names]
            return for_a, for_b if self.settings.accumulate_error else for_a
        if self.settings.accumulate_error:
            print(f"Can't find previous stored outputs named {names}!")
        inputs = generate_inputs_for_submodules(main_module, self.sample_input, [submod_path])
        return inputs[submod_path], inputs[submod_path]

    def _store_outputs(
        self, a_result: TensorOrTensors, b_result: TensorOrTensors, submodule: GraphModule
    ) -> None:
        """Keep a submodule's results by node, for the submodules behind it."""
        output = submodule.graph.output_node().args[0]
        if isinstance(output, Node):
            self.a_outputs[output.name], self.b_outputs[output.name] = a_result, b_result
            return
        results = zip(cast(list[Node], output), a_result, b_result, strict=False)
        for node, a, b in results:
            self.a_outputs[node.name], self.b_outputs[node.name] = a, b

    def _run_and_compare(
        self, split_module: GraphModule, submod_name: str, output_names: Names,
        report_idx: int = -1,
    ) -> None:
        """Run a submodule in both ways and compare the named results (none: all).

        Raises FxNetMinimizerRunFuncError if a run fails, FxNetMinimizerResultMismatchError if
        `compare_fn` says that they differ.
        """
        submodule = getattr(split_module, submod_name)
        a_input, b_input = self._get_submod_inputs(split_module, submod_name)
        if not self.reports:
            self.reports.append([])
            self.iteration = 1
        report = self.reports[report_idx if report_idx >= 0 else self.iteration - 1]
        report.append("Run and compare ...")
        if output_names and not self.settings.all_outputs:
            _return_only(submodule, output_names)
        key = map_arg(submodule.graph.output_node().args, lambda node: node.name)
        try:
            a_result = self.run_a(submodule, a_input, report_idx)
            b_result = self.run_b(submodule, b_input, report_idx)
            self._store_outputs(a_result, b_result, submodule)
        except Exception as error:
            text = f"Exception raised when running {submod_name}: {error}"
            report.append(text)
            raise FxNetMinimizerRunFuncError(text) from error
        names = output_names if output_names is not None else [str(name) for name in key]
        accuracy, agree = self.compare_fn(a_result, b_result, names)
        self.results[key] = accuracy
        report.append(f"Numerical accuracy = {accuracy}")
        if agree:
            return
        report.append(f"Result mismatch for {key}")
        if self.module_exporter:
            key = key[-1] if isinstance(key, tuple) else key
            key = str(key[0]) if isinstance(key, tuple) else key
            self.module_exporter(a_input, submodule, key + "_cpu")
            self.module_exporter(b_input, submodule, key + "_acc")
        raise FxNetMinimizerResultMismatchError(f"Result mismatch for {key}")


def _return_only(submodule: GraphModule, names: Names) -> None:
    """Replace what a submodule returns by the results of the named nodes."""
    graph = submodule.graph
    graph.erase_node(graph.output_node())
    nodes = [node for node in graph.nodes if node.name in names]
    graph.output(nodes[0] if len(nodes) == 1 else tuple(nodes))
    graph.lint()
    submodule.recompile()
