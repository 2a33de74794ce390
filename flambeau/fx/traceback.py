"""torch.fx.traceback: carry node provenance from one graph to the next."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from typing import Any

__all__ = ["annotate", "annotate_fn", "format_stack", "get_current_meta", "has_preserved_node_meta",
           "preserve_node_meta", "reset_grad_fn_seq_nr", "set_current_meta", "set_grad_fn_seq_nr",
           "set_stack_trace"]

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


def get_graph_provenance_json(graph: Any) -> dict[str, Any]:
    """Return the names of the source nodes of each node."""
    return {n.name: [str(s) for s in n.meta.get("from_node", ())] for n in graph.nodes}
