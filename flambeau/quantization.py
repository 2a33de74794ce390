"""torch.quantization: the older name of torch.ao.quantization."""

import importlib

__path__: list[str] = []  # its modules are those of torch.ao.quantization under older names
for _name in ("fuse_modules", "quantize"):  # the functions of these names replace them below
    importlib.import_module(f"{__name__}.{_name}")

from .ao.quantization import *  # noqa: E402, F403
from .ao.quantization import __all__, __getattr__  # noqa: E402, F401

__all__ = [*__all__]  # noqa: PLE0604
