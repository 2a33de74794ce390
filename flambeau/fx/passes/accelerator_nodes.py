"""FxNetAccNodesFinder: choose the nodes that an accelerator runs."""

from __future__ import annotations

from .._compatibility import compatibility
from ..graph_module import GraphModule
from ..node import Node
from .node_events import DUMP_PREFIX, TRACKER_MODE, NodeEventTracker
from .operator_support import OperatorSupportBase
from .tools_common import CALLABLE_NODE_OPS, is_node_output_tensor

__all__ = ["FxNetAccNodesFinder"]


@compatibility(is_backward_compatible=False)
class FxNetAccNodesFinder:
    """Finds the nodes that a backend supports.

    Arguments:
        module: a graph module whose nodes ShapeProp has annotated.
        operator_support: decides which nodes the backend can run.
        allow_non_tensor: keep supported nodes that exchange other values than tensors with the
            CPU's. Without it they are left to the CPU, and so is what depends on them in turn.
    """

    def __init__(
        self, module: GraphModule, operator_support: OperatorSupportBase, allow_non_tensor: bool
    ) -> None:
        self.module = module
        self.operator_support = operator_support
        self.allow_non_tensor = allow_non_tensor
        self.acc_nodes: set[Node] = set()
        self.tracker = NodeEventTracker(int(TRACKER_MODE), DUMP_PREFIX)

    def __call__(self) -> set[Node]:
        """Return the supported nodes."""
        modules = dict(self.module.named_modules())
        self.acc_nodes = set()
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                self.tracker.add(node, "init_cpu|not_callable")
            elif not self.operator_support.is_node_supported(modules, node):
                self.tracker.add(node, "init_cpu|operator_support")
            else:
                self.tracker.add(node, "init_acc|callable_and_operator_supported")
                self.acc_nodes.add(node)
        if not self.allow_non_tensor:
            self.reduce_acc_nodes_non_tensor_input()
            self.reduce_acc_nodes_non_tensor_output()
        self.tracker.dump()
        return self.acc_nodes

    def reduce_acc_nodes_non_tensor_input_helper(self, cpu_worklist: list[Node]) -> None:
        """Leave the users of these nodes to the CPU, and so on while the users pass non-tensors."""
        for node in cpu_worklist:  # grows meanwhile
            for user in node.users:
                if user not in self.acc_nodes:
                    continue
                self.acc_nodes.discard(user)
                self.tracker.add(user, "acc_del|user_of_new_cpu_node", node)
                if not is_node_output_tensor(user):
                    self.tracker.add(user, "new_cpu_node|non_tensor_output")
                    cpu_worklist.append(user)

    def reduce_acc_nodes_non_tensor_input(self) -> None:
        """Leave to the CPU what takes a non-tensor from one of its nodes."""
        sources = []
        for node in self.module.graph.nodes:
            if (node.op in CALLABLE_NODE_OPS and node not in self.acc_nodes
                    and not is_node_output_tensor(node)):
                self.tracker.add(node, "new_cpu_node|callable_non_tensor_input")
                sources.append(node)
        self.reduce_acc_nodes_non_tensor_input_helper(sources)

    def reduce_acc_nodes_non_tensor_output(self) -> None:
        """Leave to the CPU what passes a non-tensor to one of its nodes."""
        while True:
            leaving = []
            for node in self.module.graph.nodes:
                if node not in self.acc_nodes or is_node_output_tensor(node):
                    continue
                user = next((user for user in node.users if user not in self.acc_nodes), None)
                if user is not None:
                    self.tracker.add(node, "acc_del|non_tensor_output_with_cpu_user", user)
                    leaving.append(node)
            if not leaving:
                return
            self.acc_nodes.difference_update(leaving)
            self.reduce_acc_nodes_non_tensor_input_helper(leaving)
