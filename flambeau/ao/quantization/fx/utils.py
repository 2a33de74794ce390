"""torch.ao.quantization.fx.utils: names of the nodes that a rule applies to."""

from __future__ import annotations

from typing import Any, NamedTuple


class NodeInfo(NamedTuple):
    """The nodes of a kind that call one function, method or module."""

    op: str
    target: Any
