"""torch.ao: quantization and pruning. What it lacks raises NotImplementedError with its name."""

from ..tensor.absent import make_absent_getattr as _answering

__all__ = ["nn", "ns", "pruning", "quantization"]


def __getattr__(name: str) -> object:
    if name in __all__:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    return _lacking(name)


_lacking = _answering(__name__)
