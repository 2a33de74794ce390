"""torch.export: programs as graphs in files, which flambeau does not have yet."""

from .tensor.absent import lacking

__all__: list[str] = []

_NAMES = (
    "Dim", "ExportedProgram", "draft_export", "export", "export_for_training", "load",
    "register_dataclass", "save", "unflatten",
)  # fmt: skip

__getattr__ = lacking(__name__, _NAMES)
