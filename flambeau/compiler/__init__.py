"""torch.compiler's names, and the compiler behind `flambeau.compile` (pipeline.py: its stages)."""

from __future__ import annotations

from .api import allow_in_graph, assume_constant_result, compile, disable, is_compiling
from .api import is_dynamo_compiling, is_exporting, list_backends, reset

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "list_backends", "reset",
]
