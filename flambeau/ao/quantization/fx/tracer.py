"""QuantizationTracer: traces a model down to the modules that quantization knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....fx import Tracer
from ...nn.intrinsic import _FusedModule

__all__ = ["QuantizationTracer"]


class QuantizationTracer(Tracer):
    """Modules of torch.nn and fused ones are one node each, and those that are to be skipped."""

    def __init__(
        self, skipped_module_names: Sequence[str], skipped_module_classes: Sequence[Callable]
    ) -> None:
        super().__init__()
        self.skipped_module_names = skipped_module_names
        self.skipped_module_classes = skipped_module_classes

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Whether calls of a module are one node."""
        return (super().is_leaf_module(m, module_qualified_name)
                or module_qualified_name in self.skipped_module_names
                or type(m) in self.skipped_module_classes or isinstance(m, _FusedModule))
