"""Conversions of torch.onnx.ops: operators that are ONNX's already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..fx.node import Node
from .graph_builder import GraphBuilder
from .ops.attention import ATTENTION
from .ops.rotary_embedding import ROTARY_EMBEDDING
from .ops.symbolic_nodes import SYMBOLIC, SYMBOLIC_MULTI_OUT, decode_attributes

__all__ = ["list_own_operators"]

_SINCE = 23  # the opset that has rotary embeddings and attention


def list_own_operators(opset: int | None) -> dict[Any, Callable]:
    """Return the conversions of the operators that a model of an opset can have."""
    result: dict[Any, Callable] = {SYMBOLIC: _convert_symbolic,
                                   SYMBOLIC_MULTI_OUT: _convert_symbolic}
    if (opset or 0) >= _SINCE:
        result |= {ROTARY_EMBEDDING: _convert_rotary_embedding, ATTENTION: _convert_attention}
    return result


def _convert_symbolic(
    b: GraphBuilder, node: Node, inputs: Any, op_type: str, codes: Any, **encoded: Any
) -> Any:
    domain, version = encoded.get("domain", ""), encoded.get("version")
    names = ["" if x is None else b.value(x) for x in inputs]
    b.opsets[domain] = max(version or 1, b.opsets.get(domain, 0))
    result = b.op(op_type, *names, outputs=len(codes) if isinstance(codes, (list, tuple)) else 1,
                  domain=domain or None, **decode_attributes(encoded))
    for key, value in zip(encoded["metadata_props_keys"], encoded["metadata_props_values"],
                          strict=True):
        entry = b.nodes[-1].metadata_props.add()
        entry.key, entry.value = key, value
    is_list = isinstance(codes, (list, tuple))
    return (result,) if is_list and len(codes) == 1 else result


def _write(b: GraphBuilder, kind: str, inputs: list[Any], outputs: int, options: dict) -> Any:
    """Write a node of opset 23; options that are None or 0 have their defaults."""
    b.opsets[""] = max(_SINCE, b.opsets.get("", 0))
    names = ["" if x is None else b.value(x) for x in inputs]
    while not names[-1]:
        names.pop()
    shown = {key: int(value) if isinstance(value, bool) else value
             for key, value in options.items() if value}
    return b.op(kind, *names, outputs=outputs, **shown)


def _convert_rotary_embedding(b: GraphBuilder, node: Node, *inputs: Any, **options: Any) -> str:
    name: str = _write(b, "RotaryEmbedding", list(inputs), 1, options)
    return name


def _convert_attention(b: GraphBuilder, node: Node, *inputs: Any, **options: Any) -> Any:
    return _write(b, "Attention", list(inputs), 4, options)
