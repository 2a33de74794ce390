"""Graphs as text, as TorchScript prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...tensor.tensor import Tensor

__all__ = ["describe_node", "print_block", "print_graph"]


def print_graph(graph: Any) -> str:
    """Return a graph as text."""
    inputs = ",\n      ".join(map(_declare, graph.inputs()))
    lines = [f"graph({inputs}):", *(line for node in graph.body for line in node.lines("  ")),
             f"  return ({_list_names(graph.results)})"]
    return "\n".join(lines) + "\n"


def print_block(block: Any, number: int, indent: str) -> Iterator[str]:
    """Return the lines of a block, which is its node's `number`th."""
    yield f"{indent}block{number}({', '.join(map(_declare, block.inputs()))}):"
    for node in block.body:
        yield from node.lines(indent + "  ")
    yield f"{indent}  -> ({_list_names(block.results)})"


def describe_node(node: Any) -> str:
    """Return a node's line, without its blocks."""
    results = ", ".join(map(_declare, node.results))
    settings = ", ".join(f"{k}={_quote(k, v)}" for k, v in node.attributes.items())
    call = f"{node.kind()}{f'[{settings}]' if settings else ''}({_list_names(node.arguments)})"
    scope = f", scope: {node.scope}" if node.scope else ""
    return f"{results} = {call}{scope}"


def _declare(value: Any) -> str:
    return f"%{value.debugName()} : {value.type().show()}"


def _list_names(values: list[Any]) -> str:
    return ", ".join("%" + value.debugName() for value in values)


def _quote(name: str, value: Any) -> str:
    if isinstance(value, str) and name in ("name", "value") and not value.startswith("__torch__"):
        return '"' + value.encode("unicode_escape").decode().replace('"', '\\"') + '"'
    if isinstance(value, Tensor):
        return f"{{{value.item()}}}" if value.numel() == 1 and not value.is_quantized \
            else "<Tensor>"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_quote("value", part) for part in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, dict):
        pairs = (f"{_quote('value', k)}: {_quote('value', v)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    if type(value).__module__.startswith("flambeau") and not hasattr(value, "name"):
        return "object" if not hasattr(value, "type") else str(value)
    return str(int(value)) if isinstance(value, bool) else str(value)
