"""torch.cuda.amp: the old names of torch.amp, for a device that flambeau does not have.

Programs written for it run: autocast regions and scalers are there, and disabled.
"""

from __future__ import annotations

from typing import Any

from .. import amp as _amp
from ..amp import custom_bwd, custom_fwd
from ..native.foundation.user_frames import warn
from ..tensor import dtype as _dtype
from ..tensor.absent import make_absent_getattr as _answering
from ..tensor.dtypes import float16 as _float16

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def _deprecated(name: str) -> None:
    warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use "
        f"`torch.amp.{name}('cuda', args...)` instead.",
        FutureWarning,
    )


class autocast(_amp.autocast):
    """torch.amp.autocast("cuda"): without a GPU it changes nothing.

    >>> with torch.cuda.amp.autocast(enabled=False):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.float32
    """

    def __init__(
        self, enabled: bool = True, dtype: _dtype = _float16, cache_enabled: bool = True
    ) -> None:
        _deprecated("autocast")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """torch.amp.GradScaler("cuda"): without a GPU it hands losses on as they are.

    >>> torch.cuda.amp.GradScaler(enabled=False).is_enabled()
    False
    """

    def __init__(
        self, init_scale: float = 65536.0, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:
        _deprecated("GradScaler")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval,
                         enabled)


__path__: list[str] = []  # a package in PyTorch
_lacking = _answering(__name__)


def __getattr__(name: str) -> Any:
    if name in _amp.__all__:
        return getattr(_amp, name)
    return _lacking(name)
