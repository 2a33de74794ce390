"""Registry of custom ONNX export functions, by operator name and first opset version."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .errors import OnnxExporterError

__all__ = ["register_custom_op_symbolic", "unregister_custom_op_symbolic"]

_NAME = re.compile(r"[a-zA-Z0-9-_]+::[a-zA-Z-_]+[a-zA-Z0-9-_]*")

# operator -> opset version -> exporting function
SYMBOLICS: dict[str, dict[int, Callable[..., Any]]] = {}


def _check(symbolic_name: str) -> None:
    if not _NAME.fullmatch(symbolic_name):
        raise OnnxExporterError(
            f"Failed to register operator {symbolic_name}. The symbolic name must match the format "
            "domain::name, and should start with a letter and contain only alphanumeric characters"
        )


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Register the function that exports `domain::name`, from an opset version on.

    Raises OnnxExporterError for an invalid name.

    >>> torch.onnx.register_custom_op_symbolic("docs::twice", lambda g, x: x, 11)
    """
    _check(symbolic_name)
    SYMBOLICS.setdefault(symbolic_name, {})[opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Remove the registration for an opset version, if any.

    >>> torch.onnx.unregister_custom_op_symbolic("docs::thrice", 11)
    """
    _check(symbolic_name)
    SYMBOLICS.get(symbolic_name, {}).pop(opset_version, None)
