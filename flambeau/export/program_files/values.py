"""Arguments of nodes as JSON and back. What JSON lacks becomes a dict of one entry: a kind and its
content. Lists, too, are {"list": [...]}.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...fx.node import Node
from ...fx.qualified_names import torch_module
from ...tensor.devices import device
from ...tensor.dtypes import dtype
from ...tensor.layout import layout, memory_format
from ..errors import ArchiveError
from .calls import require_identifier

__all__ = ["decode_value", "encode_value"]

_TORCH_CONSTANTS = (dtype, layout, memory_format)


def encode_value(value: Any) -> Any:
    """Return a value as JSON. Raise NotImplementedError for types that archives lack."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    for types, kind, encode in _ENCODERS:
        if isinstance(value, types):
            return {kind: encode(value)}
    raise NotImplementedError(f"torch.export.save: an argument of type {type(value)}")


def _encode_all(values: Any) -> list[Any]:
    return [encode_value(v) for v in values]


_ENCODERS: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (Node, "node", lambda node: node.name),
    (float, "float", str),  # inf and nan
    (complex, "complex", lambda z: [z.real, z.imag]),
    (dict, "dict", lambda items: [_encode_all(item) for item in items.items()]),
    (tuple, "tuple", _encode_all),
    (list, "list", _encode_all),
    (slice, "slice", lambda s: _encode_all((s.start, s.stop, s.step))),
    (type(...), "ellipsis", lambda _: None),
    (_TORCH_CONSTANTS, "torch", lambda constant: str(constant).removeprefix("torch.")),
    (device, "device", str),
)


def decode_value(value: Any, nodes: dict[str, Node]) -> Any:
    """Return the value that JSON stands for. `nodes`: by name. Raise ArchiveError otherwise."""
    if isinstance(value, list):
        raise ArchiveError("torch.export.load: an argument that no archive has")
    if not isinstance(value, dict):
        return value
    (kind, content), = value.items()
    decode = _DECODERS.get(kind)
    if decode is None:
        raise ArchiveError(f"torch.export.load: an argument of kind {kind!r}")
    return decode(content, nodes)


def _decode_all(values: list[Any], nodes: dict[str, Node]) -> list[Any]:
    return [decode_value(v, nodes) for v in values]


def _decode_torch_constant(name: Any, nodes: dict[str, Node]) -> Any:
    constant = getattr(torch_module(), require_identifier(name))
    if not isinstance(constant, _TORCH_CONSTANTS):
        raise ArchiveError("torch.export.load: an argument of kind 'torch'")
    return constant


_DECODERS: dict[str, Callable[[Any, dict[str, Node]], Any]] = {
    "node": lambda name, nodes: nodes[name],
    "float": lambda text, _: float(text),
    "complex": lambda parts, _: complex(*parts),
    "dict": lambda items, nodes: dict(_decode_all(item, nodes) for item in items),
    "tuple": lambda values, nodes: tuple(_decode_all(values, nodes)),
    "list": _decode_all,
    "slice": lambda values, nodes: slice(*_decode_all(values, nodes)),
    "ellipsis": lambda _, nodes: ...,
    "torch": _decode_torch_constant,
    "device": lambda name, _: device(name),
}
