"""Contractions: who emits one. Products and convolutions have kernels; what is left is loops."""

from __future__ import annotations

from typing import Any

from ..loops import Contract
from .gemm import gemm


def contract(context: Any, statement: Contract) -> bool:
    """Emits a Contract; False where no kernel fits, and plain loops must do it."""
    return gemm(context, statement)
