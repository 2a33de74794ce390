"""torch.onnx: export modules as ONNX models, with torch.export and the package onnx.

Libraries register export functions for their operators at import time; these are only recorded.
"""

import importlib
from typing import Any

from ..tensor.absent import make_absent_getattr
from ..version import __version__
from .data_types import TensorProtoDataType
from .export_modes import (
    OperatorExportTypes as OperatorExportTypes, TrainingMode as TrainingMode,
    select_model_mode_for_export as select_model_mode_for_export,
)
from . import errors
from .errors import OnnxExporterError
from .symbolic_registry import register_custom_op_symbolic, unregister_custom_op_symbolic

# The producer recorded in files: the PyTorch version that flambeau follows.
producer_name, producer_version = "pytorch", __version__

__all__ = [
    "ONNXProgram", "OnnxExporterError", "TensorProtoDataType", "errors", "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic", "unregister_custom_op_symbolic",
]

_lacking = make_absent_getattr(__name__, (
    "ExportOptions", "ExportableModule", "InputObserver", "dynamo_export",
))


def __getattr__(name: str) -> Any:
    if name in ("ONNXProgram", "export"):  # lazy: import for a registration is cheap
        from . import exporter

        return getattr(exporter, name)
    if name in ("ops", "testing", "verification"):
        return importlib.import_module(f"{__name__}.{name}")
    return _lacking(name)


def is_in_onnx_export() -> bool:
    """Return whether a model is being exported.

    >>> torch.onnx.is_in_onnx_export()
    False
    """
    from . import exporter

    return exporter.is_exporting()
