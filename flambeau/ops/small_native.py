"""Kernels for small arrays, each a table of addresses by dtype (0: none yet)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..native.eager import Small
from ..tensor.dtypes import FLOAT32, FLOAT64

MOST = 1 << 12  # elements that count as small


def _table(name: str, *settings: Any) -> Small:
    def build(kind: np.dtype) -> Any:
        from ..native.kernels import small
        from ..native.loops import Type

        if kind != FLOAT32 and kind != FLOAT64:
            raise NotImplementedError(f"a small kernel of {kind}")
        return getattr(small, name)(Type(kind.name), *settings)

    return Small(build)


SOFTMAX, LOG_SOFTMAX = _table("softmax"), _table("log_softmax")
