"""torch.onnx: export to ONNX, which flambeau does not have yet.

Libraries register how their operators would be exported when they are imported; that is recorded.
"""

from ..tensor.absent import lacking
from .data_types import TensorProtoDataType
from .symbolic_registry import (
    OnnxExporterError, register_custom_op_symbolic, unregister_custom_op_symbolic,
)  # fmt: skip

__all__ = [
    "OnnxExporterError", "TensorProtoDataType", "is_in_onnx_export", "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]  # fmt: skip

_NAMES = ("ExportOptions", "ONNXProgram", "dynamo_export", "export")

__getattr__ = lacking(__name__, _NAMES)


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: never.

    >>> torch.onnx.is_in_onnx_export()
    False
    """
    return False
