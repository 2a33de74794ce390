"""Automatic differentiation: the tape, the engine, grad modes and hooks. Knows no operator."""

from .backward import backward, grad
from .mode import (
    enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad,
    set_grad_enabled,
)  # fmt: skip

__all__ = [
    "backward", "enable_grad", "grad", "inference_mode", "is_grad_enabled",
    "is_inference_mode_enabled", "no_grad", "set_grad_enabled",
]  # fmt: skip
