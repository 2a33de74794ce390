"""torch.onnx: export to ONNX, which flambeau does not have yet."""

from .tensor.absent import lacking

__all__ = ["is_in_onnx_export"]

_NAMES = (
    "ExportOptions", "ONNXProgram", "OnnxExporterError", "dynamo_export", "export",
    "register_custom_op_symbolic", "unregister_custom_op_symbolic",
)  # fmt: skip

__getattr__ = lacking(__name__, _NAMES)


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: never.

    >>> torch.onnx.is_in_onnx_export()
    False
    """
    return False
