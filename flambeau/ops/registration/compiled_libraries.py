"""torch.ops.load_library: libraries of C++ operators whose operators flambeau has itself.

A library is known by its package and file. Asking for a known one registers flambeau's operators
under the library's names. Every other one raises OSError, as PyTorch does for what cannot be
loaded, so that programs fall back as they would there.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from ..core.operator import Operator
from . import custom_operators as custom

# (package, file) -> the family of flambeau's operators
FAMILIES = {
    ("torchvision", "_C"): "detection",
    ("torchvision", "image"): "image_files",
    ("torchvision", "_C_stable"): "detection",  # their names from 0.29 on
    ("torchvision", "image_stable"): "image_files",
}

loaded_libraries: set[str] = set()


def load_library(path: Any) -> None:
    """Register a library's operators that flambeau implements in Python; OSError for others.

    >>> torch.ops.load_library("operators.so")
    Traceback (most recent call last):
    OSError: Could not load this library: operators.so
    """
    text = str(path)
    if text in loaded_libraries:
        return
    file = Path(text)
    family = FAMILIES.get((file.parent.name, file.name.partition(".")[0]))
    if family is None or not file.exists():
        raise OSError(f"Could not load this library: {text}") from _create_load_error(file)
    register(importlib.import_module(f"flambeau.ops.{family}"))
    loaded_libraries.add(text)


def _create_load_error(file: Path) -> OSError:
    if not file.exists():
        return OSError(
            f"{file}: cannot open shared object file: No such file or directory"
        )
    return OSError(f"{file}: its operators are for PyTorch's C++ tensors, which flambeau has not")


def register(family: Any) -> None:
    """Define a family's operators in the namespace it names."""
    for function in family.OPERATORS:
        operator = custom.define(family.NAMESPACE, derive_schema(function.operator))
        operator.kernels["CPU"] = function
    for schema, kernel in family.SCHEMAS.items():
        operator = custom.define(family.NAMESPACE, schema)
        if kernel is not None:
            operator.kernels["CompositeImplicitAutograd"] = kernel


def derive_schema(operator: Operator) -> str:
    """Return the schema given by the annotations of an operator's body.

    >>> from flambeau.ops.registration.compiled_libraries import derive_schema
    >>> from flambeau.ops.detection import nms
    >>> derive_schema(nms.operator)
    'nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor'
    """
    parts = [f"{_name_type(p.annotation)} {p.name}" for p in operator.parameters]
    result = operator.body.__annotations__["return"]
    if result.startswith("tuple["):
        inner = result.removeprefix("tuple[").removesuffix("]").split(", ")
        result = f"({', '.join(_name_type(part) for part in inner)})"
    return f"{operator.name}({', '.join(parts)}) -> {_name_type(result)}"


def _name_type(annotation: str) -> str:
    return "Tensor" if annotation == "Array" else annotation
