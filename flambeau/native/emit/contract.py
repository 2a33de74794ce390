"""Contractions: who emits one. Products and convolutions have kernels; what is left is loops."""

from __future__ import annotations

from typing import Any

from ..loops import Contract
from .conv import conv
from .conv_plan import Unsupported
from .gemm import gemm
from .winograd import winograd
from .winograd_weight import winograd_weight


def contract(context: Any, statement: Contract) -> bool:
    """Emits a Contract; False where no kernel fits, and plain loops must do it."""
    if gemm(context, statement):
        return True
    for emit in (winograd, winograd_weight, conv):
        try:
            emit(context, statement)
        except Unsupported:
            continue
        return True
    return False
