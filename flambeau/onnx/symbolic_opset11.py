"""torch.onnx.symbolic_opset11: placeholders of operators as ONNX nodes, which flambeau lacks.

Libraries' export functions refer to them; any name can be looked up and raises when called.
"""

from typing import Any

from ..tensor.absent import Lacking


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module 'torch.onnx.symbolic_opset11' has no attribute '{name}'")
    return Lacking(f"torch.onnx.symbolic_opset11.{name}")
