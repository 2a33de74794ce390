"""torch.onnx.ops: operators of ONNX that modules call, and that an export writes as they are.

`symbolic` stands for any operator and computes zeros here; `rotary_embedding` and `attention`
compute what ONNX defines, and become one node each from opset 23 on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .attention import DECOMPOSITIONS as _ATTENTION, attention
from .rotary_embedding import DECOMPOSITIONS as _ROTATION, rotary_embedding
from .symbolic_nodes import symbolic, symbolic_multi_out

__all__ = ["aten_decompositions", "attention", "rotary_embedding", "symbolic", "symbolic_multi_out"]


def aten_decompositions() -> dict[Any, Callable]:
    """Return the functions that compute ONNX's operators with PyTorch's, by overload.

    >>> [str(op) for op in torch.onnx.ops.aten_decompositions()]
    ['onnx.RotaryEmbedding.opset23', 'onnx.Attention.opset23']
    """
    return {**_ROTATION, **_ATTENTION}
