"""GraphTransformObserver: note which nodes a pass creates, erases and replaces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from .._compatibility import compatibility
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node
from ..traceback import NodeSource, NodeSourceAction
from .graph_drawer import FxGraphDrawer

__all__ = ["GraphTransformObserver"]

T = TypeVar("T")


@compatibility(is_backward_compatible=False)
class GraphTransformObserver:
    """A context around a pass; new nodes get the pass's name in `meta["from_node"]`.

    Arguments:
        gm: the graph module that the pass changes.
        passname: the pass's name.
        subsystem: a name of the passes it belongs to.
        log_url: a folder for two drawings of each pass, before and after (needs `pydot`).

    >>> from flambeau.fx.passes.graph_transform_observer import GraphTransformObserver
    >>> gm = torch.fx.symbolic_trace(lambda x: x + 1)
    >>> with GraphTransformObserver(gm, "double") as observer:
    ...     with gm.graph.inserting_before(gm.graph.output_node()):
    ...         _ = gm.graph.call_function(torch.relu, (next(iter(gm.graph.nodes)),))
    >>> observer.created_nodes
    {'relu'}
    """

    _pass_count: ClassVar[int] = 0

    def __init__(
        self, gm: GraphModule, passname: str, subsystem: str | None = None,
        log_url: str | None = None,
    ) -> None:
        self.gm, self.passname, self.subsystem, self.log_url = gm, passname, subsystem, log_url
        self.erased_nodes: set[str] = set()
        self.created_nodes: set[str] = set()
        self.name_to_node: dict[str, Node] = {}
        self.copied_gms: list[GraphModule] = []  # copies inherit the hooks
        if log_url is not None:
            GraphTransformObserver._pass_count += 1
            self.input_dot_graph = self._draw()

    @classmethod
    def get_current_pass_count(cls) -> int:
        """Return how many passes were drawn."""
        return cls._pass_count

    def apply_gm_pass(self, pass_fn: Callable[[GraphModule], T]) -> T:
        """Return what a pass on the graph module returns, and observe it."""
        with self:
            return pass_fn(self.gm)

    def apply_graph_pass(self, pass_fn: Callable[[Graph], T]) -> T:
        """Return what a pass on the graph returns, and observe it."""
        with self:
            return pass_fn(self.gm.graph)

    def __enter__(self) -> Self:
        for seen in (self.erased_nodes, self.created_nodes, self.copied_gms):
            seen.clear()
        self.name_to_node = {node.name: node for node in self.gm.graph.nodes}
        self._hooks: dict[str, Callable[..., None]] = {
            "create_node": self._note_created, "erase_node": self._erased,
            "replace_node": self._note_replaced, "deepcopy": self._note_copied,
        }
        for event, hook in self._hooks.items():
            getattr(self.gm, f"_register_{event}_hook")(hook)
        return self

    def __exit__(self, *exception: object) -> None:
        for gm in (*self.copied_gms, self.gm):
            for event, hook in self._hooks.items():
                getattr(gm, f"_unregister_{event}_hook")(hook)
        if self.log_url is not None and (self.created_nodes or self.erased_nodes):
            self._write(self.input_dot_graph, "input", self.erased_nodes)
            self._write(self._draw(), "output", self.created_nodes)

    def _draw(self) -> Any:
        drawer = FxGraphDrawer(self.gm, self.passname, ignore_getattr=True,
                               ignore_parameters_and_buffers=True)
        return drawer.get_dot_graph()

    def _write(self, drawing: Any, moment: str, changed: set[str]) -> None:
        """Write a drawing with the changed nodes in yellow."""
        for box in drawing.get_node_list():
            color = "yellow" if box.get_name() in changed else "grey"
            box.obj_dict["attributes"]["fillcolor"] = color
        name = f"pass_{self._pass_count}_{self.passname}_{moment}_graph.dot"
        drawing.write(str(Path(self.log_url or "") / name))

    def _note_created(self, node: Node) -> None:
        self.created_nodes.add(node.name)
        self.name_to_node[node.name] = node
        source = NodeSource(None, self.passname, NodeSourceAction.CREATE)
        node.meta["from_node"] = [*node.meta.get("from_node", ()), source]

    def _erased(self, node: Node) -> None:
        self.erased_nodes.add(node.name)
        self.name_to_node.pop(node.name, None)

    def _note_replaced(self, old: Node, new: str, user: Node) -> None:
        """Note that a node stands for another; called once for each user."""
        node = self.name_to_node.get(new)
        if node is None:
            return
        sources = node.meta.get("from_node", [])
        if any(source.name == old.name for source in sources):
            return
        actions = [NodeSourceAction.REPLACE]
        if new in self.created_nodes:
            actions.append(NodeSourceAction.CREATE)
        earlier = [s for s in sources if not (s.pass_name == self.passname
                                              and s.action == [NodeSourceAction.CREATE])]
        node.meta["from_node"] = [*earlier, NodeSource(old, self.passname, actions)]

    def _note_copied(self, gm: GraphModule) -> None:
        self.copied_gms.append(gm)
