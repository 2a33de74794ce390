"""torch.nn.functional: the operators of neural networks, by their public names.

They are defined in flambeau.ops; this module only re-exports them.
"""

from __future__ import annotations

from typing import Any

from .. import ops  # noqa: F401  (its families declare what is shown here)
from ..ops.core.operator import PUBLIC
from ..tensor.absent import make_absent_getattr as _answering

_PUBLIC = PUBLIC.setdefault("nn.functional", {})
globals().update(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name == "grad":  # imports this module
        from . import grad

        return grad
    if name == "_threshold":  # its name in PyTorch's graphs
        name = "threshold"
    if name in _PUBLIC:
        return _PUBLIC[name]
    if name.startswith("_") and not name.startswith("__"):
        from .functional_parts import PARTS

        if name in PARTS:
            return PARTS[name]
    return _lacking(name)


_lacking = _answering(__name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
