"""The steps of quantization that modules of this package take on themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Steps:
    """`prepare`, `prepare_qat` and `convert`; set by `ao.quantization`, which is above."""

    prepare: Callable[..., Any]
    prepare_qat: Callable[..., Any]
    convert: Callable[..., Any]
