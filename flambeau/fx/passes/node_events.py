"""NodeEventTracker: note why the splitter gave each node to the accelerator or to the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from .._compatibility import compatibility
from ..node import Node

__all__ = ["NodeEvent", "NodeEventTracker"]

# Settings of PyTorch's names: what is written (0: nothing, 1: all events, 2: also the histories of
# the nodes listed, 3: also those of nodes with more than one event), where, and the nodes.
ENV_FX_NET_ACC_SPLITTER_TRACKER_MODE = "FX_NET_ACC_SPLITTER_TRACKER_MODE"
ENV_FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH = "FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH"
ENV_FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES = "FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES"
TRACKER_MODE = os.environ.get(ENV_FX_NET_ACC_SPLITTER_TRACKER_MODE, "0")
DUMP_PREFIX = os.environ.get(ENV_FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH, "_fx_net_tracker")
NODES_SUFFIX = "_nodes.txt"
ALL_SUFFIX = "_all.txt"

Writer = Callable[[str], object]


@compatibility(is_backward_compatible=False)
class NodeEvent:
    """One decision about a node: what happened, and which other node caused it, if any."""

    def __init__(self, source: Node, desc: str, dep: Node | None = None) -> None:
        self.source, self.desc, self.dep = source, desc, dep

    def to_str(self) -> str:
        """Return the event as a line: node, event, and the node that caused it, or `#`."""
        return f"{self.source.name}: {self.desc} {self.dep.name if self.dep else '#'}"


@compatibility(is_backward_compatible=False)
class NodeEventTracker:
    """Collects events by node and writes them to files.

    Arguments:
        tracker_mode: 0 to 3, see above.
        dump_prefix: the files' path without its ending.

    >>> from flambeau.fx.passes.splitter_base import NodeEventTracker
    >>> gm = torch.fx.symbolic_trace(lambda x: x + 1)
    >>> tracker = NodeEventTracker(0, "")
    >>> tracker.add(next(iter(gm.graph.nodes)), "init_cpu|not_callable")
    >>> tracker.to_dict()
    {'x': ['x: init_cpu|not_callable #']}
    """

    def __init__(self, tracker_mode: int, dump_prefix: str) -> None:
        self.tracker_mode, self.dump_prefix = tracker_mode, dump_prefix
        self.events: list[NodeEvent] = []
        self.node_events: dict[str, list[int]] = {}  # by a node's name, indices of `events`
        self.writer: Writer = print

    def add(self, node: Node, desc: str, dep: Node | None = None) -> None:
        """Note an event of a node, and the node that caused it."""
        self.node_events.setdefault(node.name, []).append(len(self.events))
        self.events.append(NodeEvent(node, desc, dep))

    def print_node(
        self, node_name: str, recursive: bool = False, tab: str = "", writer: Writer | None = None
    ) -> None:
        """Write a node's events; `recursive`: below each, those of the node that caused it."""
        write = writer or self.writer
        for i in self.node_events.get(node_name, ()):
            event = self.events[i]
            write(tab + event.to_str())
            if recursive and event.dep is not None:
                self.print_node(event.dep.name, True, "| " + tab, write)

    def print_all(self, writer: Writer | None = None) -> None:
        """Write the events of all nodes."""
        write = writer or self.writer
        for name in self.node_events:
            write(f"Node: {name}:")
            self.print_node(name, tab="  ", writer=write)

    def to_dict(self) -> dict[str, list[str]]:
        """Return the lines of each node's events."""
        return {name: [self.events[i].to_str() for i in indices]
                for name, indices in self.node_events.items()}

    def dump(self) -> None:
        """Write the files that the mode asks for."""
        if self.tracker_mode >= 1:
            lines: list[str] = []
            self.print_all(lines.append)
            _write(self.dump_prefix + ALL_SUFFIX, lines)
        if self.tracker_mode not in (2, 3):
            return
        names = [name for name, events in self.node_events.items() if len(events) > 1]
        if self.tracker_mode == 2:
            names = os.environ.get(ENV_FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES, "").split(",")
        lines = []
        for name in names:
            lines.append(f"===== Tracking node {name} =====")
            self.print_node(name, True, "|-", lines.append)
            lines.append(f"===== End of tracking node {name} =====")
        _write(self.dump_prefix + NODES_SUFFIX, lines)


def _write(path: str, lines: list[str]) -> None:
    Path(path).write_text("".join(line + "\n" for line in lines))
