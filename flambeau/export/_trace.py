"""torch.export._trace: export under the name that PyTorch's own tools call."""

from __future__ import annotations

from typing import Any

from .exported_program import ExportedProgram
from .trace import export

__all__ = ["DEFAULT_EXPORT_DYNAMO_CONFIG"]

DEFAULT_EXPORT_DYNAMO_CONFIG: Any = None


def _export(
    mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None, *, preserve_module_call_signature: Any = (), **options: Any,
) -> ExportedProgram:
    """Call torch.export.export; other options are accepted."""
    return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes,
                  preserve_module_call_signature=preserve_module_call_signature)
