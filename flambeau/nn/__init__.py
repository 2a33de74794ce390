"""torch.nn: layers, containers and losses as classes, and their building blocks.

`functional` has the same computations as functions, `init` weight initialization, `utils` clipping,
packing of sequences and parametrizations.
"""

from __future__ import annotations

from typing import Any

from ..tensor.absent import make_absent_getattr as _answering
from . import attention, functional, grad, init, modules, parallel, parameter, utils
from .modules import *
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

_FACTORY = frozenset({"device", "dtype", "memory_format"})


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the arguments in `kwargs` that `torch.empty` and similar functions take.

    They may also be in a nested dictionary under the key `factory_kwargs`, if a name has another
    meaning. Raises TypeError for any other key, or one that is given twice.

    >>> torch.nn.factory_kwargs({"dtype": torch.float64})
    {'dtype': torch.float64}
    """
    options = dict(kwargs or {})
    result = dict(options.pop("factory_kwargs", {}))
    if not options.keys() <= _FACTORY:
        raise TypeError(f"unexpected kwargs {options.keys() - _FACTORY}")
    for name in options.keys() & result.keys():
        raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
    return result | options


__getattr__ = _answering(__name__)
