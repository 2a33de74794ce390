"""torch.ao: quantisation, of which flambeau has what models need that are not quantised."""

from ..tensor.absent import lacking as _answering

__all__ = ["quantization"]


def __getattr__(name: str) -> object:
    if name in __all__:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    return _lacking(name)


_lacking = _answering(__name__)
