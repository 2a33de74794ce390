"""torch.onnx.errors: what the exporter raises and warns of."""

from __future__ import annotations

from typing import Any

__all__ = ["OnnxExporterError", "OnnxExporterWarning", "SymbolicValueError",
           "UnsupportedOperatorError"]


class OnnxExporterWarning(UserWarning):
    """Warnings of the ONNX exporter."""


class OnnxExporterError(RuntimeError):
    """Raised by torch.onnx for invalid names and failed exports."""


class ConversionError(OnnxExporterError):
    """A model calls operators that have no conversion."""


class UnsupportedOperatorError(OnnxExporterError):
    """An operator that an opset lacks. PyTorch's exporter of TorchScript raises it."""

    def __init__(self, name: str, version: int, supported_version: int | None) -> None:
        text = f"Exporting the operator '{name}' to ONNX opset version {version} is not supported"
        if supported_version is not None:
            text += (". Support for this operator was added in version "
                     f"{supported_version}, try exporting with this version")
        elif not name.startswith(("aten::", "prim::", "quantized::")):
            text = (f"ONNX export failed on an operator with unrecognized namespace {name}. If you "
                    "are trying to export a custom operator, make sure you registered it with the "
                    "right domain and version.")
        super().__init__(text)


class SymbolicValueError(OnnxExporterError):
    """An error about a value of TorchScript's IR, which flambeau does not have."""

    def __init__(self, msg: str, value: Any) -> None:
        super().__init__(f"{msg}  [Caused by the value '{value}'.]")
