"""Contractions: who emits one. Products and convolutions have kernels; what is left is loops."""

from __future__ import annotations

from typing import Any

from ..loop_ir.ir import Contract, Kernel
from ..target.machine import host
from .winograd import plan, weight_gradient
from .conv.implicit_gemm import any_conv
from .conv.implicit_gemm_weight import any_weight
from .conv.direct import conv
from .conv.direct_blocking import Unsupported
from .gemm.dispatch import gemm
from .winograd.forward import winograd


def contract(context: Any, statement: Contract) -> bool:
    """Emits a Contract; False where no kernel fits, and plain loops must do it."""
    if gemm(context, statement):
        return True
    for emit in (any_conv, any_weight, winograd, weight_gradient.winograd_weight, conv):
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
        plan.plan(contraction, host())
    except Unsupported:
        weight_gradient.plan(contraction, host())
