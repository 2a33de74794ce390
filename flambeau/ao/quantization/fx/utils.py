"""torch.ao.quantization.fx.utils: how rules about nodes name those that they hold for."""

from __future__ import annotations

from typing import Any, NamedTuple


class NodeInfo(NamedTuple):
    """The nodes of a kind that call one function, method or module."""

    op: str
    target: Any
