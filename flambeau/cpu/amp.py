"""torch.cpu.amp: the old names of torch.amp for the CPU."""

from __future__ import annotations

from typing import Any

from .. import amp as _amp
from ..native.foundation.user_frames import warn
from ..tensor import dtype as _dtype
from ..tensor.absent import make_absent_getattr as _answering
from ..tensor.dtypes import bfloat16 as _bfloat16

__all__ = ["GradScaler", "autocast"]


def _deprecated(name: str) -> None:
    warn(
        f"`torch.cpu.amp.{name}(args...)` is deprecated. Please use "
        f"`torch.amp.{name}('cpu', args...)` instead.",
        FutureWarning,
    )


class autocast(_amp.autocast):
    """torch.amp.autocast("cpu").

    >>> with torch.cpu.amp.autocast():
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    """

    def __init__(
        self, enabled: bool = True, dtype: _dtype = _bfloat16, cache_enabled: bool = True
    ) -> None:
        _deprecated("autocast")
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """torch.amp.GradScaler("cpu").

    >>> torch.cpu.amp.GradScaler().get_scale()
    65536.0
    """

    def __init__(
        self, init_scale: float = 65536.0, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:
        _deprecated("GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval,
                         enabled)


__path__: list[str] = []  # a package in PyTorch
_lacking = _answering(__name__)


def __getattr__(name: str) -> Any:
    return _lacking(name)
