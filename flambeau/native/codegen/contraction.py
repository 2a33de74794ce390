"""Contractions: who emits one. Products and convolutions have kernels; what is left is loops."""

from __future__ import annotations

from typing import Any

from ..loops import Contract, Kernel
from ..target import host
from . import winograd_plan, winograd_weight
from .any_conv import any_conv
from .any_weight import any_weight
from .conv import conv
from .conv_plan import Unsupported
from .gemm import gemm
from .winograd import winograd


def contract(context: Any, statement: Contract) -> bool:
    """Emits a Contract; False where no kernel fits, and plain loops must do it."""
    if gemm(context, statement):
        return True
    for emit in (any_conv, any_weight, winograd, winograd_weight.winograd_weight, conv):
        try:
            emit(context, statement)
        except Unsupported:
            continue
        return True
    return False


def check_winograd(kernel: Kernel) -> None:
    """Raises Unsupported where a convolution's kernel is not made by Winograd's algorithm."""
    (contraction,) = kernel.body
    if not isinstance(contraction, Contract):
        raise Unsupported("several contractions")
    try:
        winograd_plan.plan(contraction, host())
    except Unsupported:
        winograd_weight.plan(contraction, host())
