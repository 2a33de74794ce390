"""Automatic differentiation: the tape, the engine, grad modes, hooks, Function and its checks.

It knows no operator: operators record themselves here from above.
"""

from . import functional, graph
from .anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from .backward import backward, grad
from .function import Function
from .gradcheck import gradcheck, gradgradcheck
from .mode import (
    enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad,
    set_grad_enabled,
)
from .node import SavedTensor as SavedTensor
from .variable import Variable

__all__ = [
    "Function", "Variable", "backward", "detect_anomaly", "enable_grad", "functional", "grad",
    "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_anomaly_enabled",
    "is_grad_enabled", "is_inference_mode_enabled", "kineto_available", "no_grad",
    "set_detect_anomaly", "set_grad_enabled",
]


def kineto_available() -> bool:
    """Whether a profile can be recorded: torch.profiler is there.

    >>> torch.autograd.kineto_available()
    True
    """
    return True
