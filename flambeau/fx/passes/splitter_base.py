"""Split a graph into submodules for an accelerator and for the CPU."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...nn.module import Module
from .._compatibility import compatibility
from ..graph_module import GraphModule
from ..node import Node
from . import split_preview
from .accelerator_nodes import FxNetAccNodesFinder
from .node_events import NodeEvent, NodeEventTracker
from .operator_support import OperatorSupportBase
from .shape_prop import ShapeProp
from .split_order import (
    FxNetSplitterInternalError,
    Subgraph,
    alternate,
    find_dependencies,
    merge_small,
)
from .split_utils import move_non_tensor_nodes_on_boundary, split_by_tags
from .submodule_inputs import generate_inputs_for_submodules
from .tools_common import CALLABLE_NODE_OPS, FxNetAccFusionsFinder

__all__ = ["FxNetAccNodesFinder", "FxNetSplitterInternalError", "NodeEvent", "NodeEventTracker",
           "SplitResult", "Subgraph", "generate_inputs_for_submodules"]

DEFAULT_MIN_ACC_MODULE_SIZE = 1
DEFAULT_SKIP_FUSION = False
DEFAULT_ALLOW_NON_TENSOR = False


class _SplitterSettingBase:
    """Settings of a splitter; options of the same names on the command line come first.

    Arguments:
        min_acc_module_size: smaller accelerator subgraphs go to the CPU.
        skip_fusion: do not keep nodes together between which non-tensors flow.
        allow_non_tensor: non-tensors may pass between the accelerator and the CPU.
        max_acc_splits: the most submodules that `generate_split_results` accepts; -1: any number.
        move_non_tensor_nodes_on_boundary: move the last non-tensors of an accelerator's subgraph
            to the subgraph that uses them.
    """

    def __init__(
        self, min_acc_module_size: int = DEFAULT_MIN_ACC_MODULE_SIZE,
        skip_fusion: bool = DEFAULT_SKIP_FUSION,
        allow_non_tensor: bool = DEFAULT_ALLOW_NON_TENSOR, max_acc_splits: int = -1,
        move_non_tensor_nodes_on_boundary: bool = False,
    ) -> None:
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        for name in ("min_acc_module_size", "max_acc_splits"):
            parser.add_argument(f"--{name}", f"--{name.replace('_', '-')}", type=int)
        for name in ("skip_fusion", "allow_non_tensor", "move_non_tensor_nodes_on_boundary"):
            parser.add_argument(f"--{name}", f"--{name.replace('_', '-')}", action="store_true")
        options = parser.parse_known_args()[0]
        self.min_acc_module_size: int = options.min_acc_module_size or min_acc_module_size
        self.skip_fusion: bool = options.skip_fusion or skip_fusion
        self.allow_non_tensor: bool = options.allow_non_tensor or allow_non_tensor
        self.max_acc_splits: int = options.max_acc_splits or max_acc_splits
        self.move_non_tensor_nodes_on_boundary: bool = (
            options.move_non_tensor_nodes_on_boundary or move_non_tensor_nodes_on_boundary
        )


@compatibility(is_backward_compatible=False)
class SplitResult(NamedTuple):
    """A split module, the inputs of each submodule, and how the CPU's submodules are named."""

    split_module: GraphModule
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


class _SplitterBase:
    """Splits a graph module into submodules for an accelerator and for the CPU, as few as possible.

    Backends derive from it and override `_lower_model_to_backend` and `_find_culprit`.

    Arguments:
        module: the graph module; its nodes get shapes from a run on `sample_input`.
        sample_input: example arguments.
        operator_support: decides which nodes the accelerator can run.
        settings: see `_SplitterSettingBase`.
        non_acc_submodule_name: prefix of the CPU's submodules.
        return_tuple: submodules return tuples even of one value.
        nodes_finder: returns the accelerator's nodes when called, instead of `operator_support`.

    >>> from flambeau.fx.passes.operator_support import OperatorSupport
    >>> from flambeau.fx.passes.splitter_base import _SplitterBase, _SplitterSettingBase
    >>> gm = torch.fx.symbolic_trace(lambda x: torch.relu(x + 1).sin())
    >>> support = OperatorSupport({"torch.relu": None})
    >>> split = _SplitterBase(gm, [torch.ones(2)], support, _SplitterSettingBase())()
    Got 1 acc subgraphs and 2 non-acc subgraphs
    >>> [name for name, _ in split.named_children()]
    ['_run_on_cpu_0', '_run_on_acc_1', '_run_on_cpu_2']
    """

    PCIe_BW = 100 * 2**30  # bytes per second between the CPU and the accelerator

    def __init__(
        self, module: GraphModule, sample_input: Sequence[Any],
        operator_support: OperatorSupportBase, settings: _SplitterSettingBase,
        non_acc_submodule_name: str = "_run_on_cpu_", return_tuple: bool = False,
        nodes_finder: FxNetAccNodesFinder | None = None,
    ) -> None:
        if not isinstance(module, GraphModule):
            raise AssertionError(f"Expected GraphModule, got {type(module)}")
        self.module, self.sample_input = module, sample_input
        self.operator_support, self.settings = operator_support, settings
        ShapeProp(module).propagate(*sample_input)
        if nodes_finder is None:
            nodes_finder = FxNetAccNodesFinder(module, operator_support, settings.allow_non_tensor)
        self.acc_nodes = nodes_finder()
        self.fusions: dict[Node, set[Node]] = {}
        if not settings.skip_fusion:
            self.fusions = FxNetAccFusionsFinder(module, self.acc_nodes)()
        self.deps = find_dependencies(module.graph, self.fusions)
        self.non_acc_submodule_name = non_acc_submodule_name
        self._node_submodule_map: dict[str, str] = {}
        self._return_tuple = return_tuple
        self.tags: list[str] = []

    def __call__(self) -> GraphModule:
        """Split the module; each node gets its submodule's name as `tag`."""
        subgraphs = self.put_nodes_into_subgraphs()
        if self.settings.move_non_tensor_nodes_on_boundary:
            move_non_tensor_nodes_on_boundary(subgraphs)
        subgraphs = self.remove_small_acc_subgraphs(subgraphs)
        on_acc = sum(s.is_acc for s in subgraphs)
        print(f"Got {on_acc} acc subgraphs and {len(subgraphs) - on_acc} non-acc subgraphs")
        self.tag(subgraphs)
        return self.split()

    def generate_split_results(self) -> SplitResult:
        """Split the module, and find the inputs of its submodules for the sample input.

        Raises ValueError if there are more submodules than `max_acc_splits`.
        """
        split_module = self()
        names = [name for name, _ in split_module.named_children()]
        if 0 < self.settings.max_acc_splits < len(names):
            raise ValueError(
                "Cannot fulfill max_acc_splits limit. This may cause split fragmentation and "
                "result in performance issues."
            )
        inputs = generate_inputs_for_submodules(split_module, self.sample_input, names)
        return SplitResult(split_module, inputs, self.non_acc_submodule_name)

    def put_nodes_into_subgraphs(self) -> list[Subgraph]:
        """Return subgraphs that alternate between CPU and accelerator, as long as possible."""
        return alternate(self.module.graph, self.acc_nodes, self.deps)

    def remove_small_acc_subgraphs(self, subgraphs: list[Subgraph]) -> list[Subgraph]:
        """Give subgraphs below `min_acc_module_size` nodes to their neighbor."""
        return merge_small(subgraphs, self.settings.min_acc_module_size)

    def tag(self, subgraphs: list[Subgraph]) -> None:
        """Set each node's `tag` to its submodule's name."""
        self.tags = []
        for i, subgraph in enumerate(subgraphs):
            tag = f"_run_on_acc_{i}" if subgraph.is_acc else f"{self.non_acc_submodule_name}{i}"
            self.tags.append(tag)
            for node in subgraph.nodes:
                if hasattr(node, "tag"):
                    raise FxNetSplitterInternalError(f"Node {node} was already tagged")
                node.tag = tag
                self._node_submodule_map[node.name] = tag

    def split(self, remove_tag: bool = False) -> GraphModule:
        """Return the module split by the nodes' tags; `remove_tag`: delete these afterwards."""
        split_module = split_by_tags(self.module, self.tags, return_tuple=self._return_tuple)
        if remove_tag:
            for node in self.module.graph.nodes:
                if hasattr(node, "tag"):
                    del node.tag
        assert isinstance(split_module, GraphModule)
        return split_module

    def get_node_submodule_map(self) -> dict[str, str]:
        """Return the submodule of each node, by their names."""
        return self._node_submodule_map

    def node_support_preview(self, dump_graph: bool = False) -> str:
        """Print and return which targets are supported, with the dtypes of their arguments.

        `dump_graph`: also write a drawing, node_support.dot.
        """
        report = split_preview.describe_support(self.module, self.operator_support, dump_graph)
        print(report)
        return report

    def split_preview(self, dump_graph: bool = False) -> str:
        """Print and return a report: the subgraphs, their inputs and outputs, and their lowering.

        `dump_graph`: also write drawings of the submodules.
        """
        report = split_preview.subgraphs(self, dump_graph)
        print(report)
        return report

    def _lower_model_to_backend(self, mod: GraphModule, inputs: Any) -> Module:
        """Return the accelerator's form of a submodule. Backends override it."""
        return mod

    def _find_culprit(self, mod: GraphModule, inputs: Any) -> str:
        """Say which nodes fail when a submodule does. Backends override it."""
        return "Unable to find a culprit because _find_culprit() function is not implemented."

    def find_reverse_deps(self, tag_id: int | None = None) -> dict[Node, set[Node]]:
        """Return the calls that use each node; with `tag_id` only those of earlier subgraphs."""
        result: dict[Node, set[Node]] = defaultdict(set)
        for node in self.module.graph.nodes:
            if node.op in CALLABLE_NODE_OPS:
                result[node] |= {
                    user for user in node.users if user.op in CALLABLE_NODE_OPS
                    and (tag_id is None or _parse_number(user.tag) < tag_id)
                }
        return result

    def update_reverse_deps_for_fusions(self, deps: dict[Node, set[Node]]) -> None:
        """Let the members of a group share their users, and group each argument's users too."""
        for group in {id(group): group for group in self.fusions.values()}.values():
            users = set().union(*(deps[node] for node in group)) - group
            for node in group:
                deps[node] = users
                for argument in node.all_input_nodes:
                    if argument not in group:
                        deps[argument] |= group

    def find_parent_nodes_of_subgraph(self, tag: str) -> set[Node]:
        """Return the calls in other subgraphs whose results this one uses."""
        return {
            argument for node in self.module.graph.nodes
            if node.op in CALLABLE_NODE_OPS and node.tag == tag
            for argument in node.all_input_nodes
            if argument.op in CALLABLE_NODE_OPS and argument.tag != tag
        }

    def extend_acc_subgraph(self, tag: str) -> None:
        """Move accelerator nodes that only this subgraph uses into it, from its inputs upwards."""
        deps = self.find_reverse_deps(_parse_number(tag))
        self.update_reverse_deps_for_fusions(deps)
        parents = self.find_parent_nodes_of_subgraph(tag)
        joined: set[Node] = set()
        while True:
            node = next((n for n in self.module.graph.nodes if n in parents
                         and n in self.acc_nodes and deps[n] <= joined), None)
            if node is None:
                return
            node.tag = tag
            parents.remove(node)
            joined.add(node)
            above = {n for n in node.all_input_nodes if n.op in CALLABLE_NODE_OPS}
            parents |= (self.fusions.get(node, set()) | above) - joined


def _parse_number(tag: str) -> int:
    return int(tag.rpartition("_")[2])
