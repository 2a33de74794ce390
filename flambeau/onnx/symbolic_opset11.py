"""torch.onnx.symbolic_opset11: operators as nodes of an ONNX graph, which flambeau does not build.

Exporting functions of libraries name these; any name can be looked up, and says so when called.
"""

from typing import Any

from ..tensor.absent import Lacking


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module 'torch.onnx.symbolic_opset11' has no attribute '{name}'")
    return Lacking(f"torch.onnx.symbolic_opset11.{name}")
