"""torch.fx.traceback: carry node provenance from one graph to the next."""

from __future__ import annotations

import contextlib
import copy
import enum
import traceback
from collections.abc import Iterator
from typing import Any

__all__ = ["NodeSource", "NodeSourceAction", "annotate", "annotate_fn", "format_stack",
           "get_current_meta", "has_preserved_node_meta", "preserve_node_meta",
           "reset_grad_fn_seq_nr", "set_current_meta", "set_grad_fn_seq_nr", "set_stack_trace"]

GRADIENT_ACC_SPECIAL_STACK = (
    "Gradient addition node due to multiple use of tensor around:"
)
_meta: dict[str, Any] = {}
_preserves = False


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Context in which new nodes inherit the meta of the node that an Interpreter runs."""
    global _preserves, _meta
    before = _preserves, _meta
    _preserves = _preserves or enable
    _meta = _meta.copy()
    try:
        yield
    finally:
        _preserves, _meta = before


def has_preserved_node_meta() -> bool:
    """Return whether new nodes inherit meta."""
    return _preserves


def get_current_meta() -> dict[str, Any]:
    """Return the meta that new nodes inherit."""
    return _meta


@contextlib.contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Iterator[None]:
    """Context in which new nodes inherit the meta of `node`."""
    global _meta
    before = _meta
    if _preserves and node.meta:
        _meta = node.meta.copy()
    try:
        yield
    finally:
        _meta = before


def set_stack_trace(stack: list[str]) -> None:
    """Set the stack trace that new nodes inherit."""
    if _preserves and stack:
        _meta["stack_trace"] = "".join(stack)


@contextlib.contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Context in which new nodes carry these entries in `meta["custom"]`."""
    global _meta
    before = _meta
    _meta = {**_meta, "custom": {**_meta.get("custom", {}), **annotation_dict}}
    try:
        yield
    finally:
        _meta = before


def annotate_fn(annotation_dict: dict[str, Any]) -> Any:
    """Return a decorator that annotates nodes created inside the function."""
    import functools

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return wrapped

    return decorate


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Record the backward node that is running."""
    if _preserves:
        _meta["grad_fn_seq_nr"] = [*_meta.get("grad_fn_seq_nr", []), seq_nr]
        _meta["in_grad_fn"] = _meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    """Undo the last `set_grad_fn_seq_nr`."""
    if _preserves and _meta.get("in_grad_fn", 0) > 0:
        _meta["in_grad_fn"] -= 1
        _meta["grad_fn_seq_nr"] = _meta["grad_fn_seq_nr"][:-1]


def format_stack() -> list[str]:
    """Return the stack trace that new nodes inherit, or the current stack."""
    if _preserves:
        return [_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextlib.contextmanager
def _set_current_replay_node(node: Any) -> Iterator[None]:
    yield


def get_current_replay_node() -> None:
    """Return None: nothing is replayed."""


class NodeSourceAction(enum.Enum):
    """What a pass did with a node."""

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """Where a node comes from: another node or None, a pass, and the pass's action.

    Entries of `node.meta["from_node"]`; `from_node` leads further back.
    """

    def __init__(
        self, node: Any, pass_name: str = "",
        action: NodeSourceAction | list[NodeSourceAction] | None = None,
    ) -> None:
        self.pass_name = pass_name
        self.action = action if isinstance(action, list) else [] if action is None else [action]
        self.name = node.name if node is not None else ""
        self.target = str(node.target) if node is not None else ""
        self.graph_id = id(node.graph) if node is not None else -1
        self.from_node = copy.deepcopy(node.meta.get("from_node", [])) if node is not None else []

    @property
    def node_info(self) -> dict[str, Any] | None:
        """The node's name, target and graph; None without a node."""
        if not self.name:
            return None
        return {"name": self.name, "target": self.target, "graph_id": str(self.graph_id)}

    def to_dict(self) -> dict[str, Any]:
        """Return this source and those before it as a dict for JSON."""
        return {"name": self.name, "target": self.target, "graph_id": self.graph_id,
                "pass_name": self.pass_name, "action": "+".join(a.name.capitalize()
                                                                for a in self.action),
                "from_node": [source.to_dict() for source in self.from_node]}

    def __repr__(self) -> str:
        return self.print_readable()

    def print_readable(self, indent: int = 0) -> str:
        """Return this source and those before it, one a line."""
        action = "+".join(a.name.lower() for a in self.action)
        line = (f"{' ' * indent * 4}(name={self.name}, pass_name={self.pass_name}, "
                f"action={action}, graph_id={self.graph_id})\n")
        return line + "".join(source.print_readable(indent + 1) for source in self.from_node)


def get_graph_provenance_json(graph: Any) -> dict[str, Any]:
    """Return the names of the source nodes of each node."""
    return {n.name: [str(s) for s in n.meta.get("from_node", ())] for n in graph.nodes}
