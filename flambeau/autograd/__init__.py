"""Automatic differentiation: the tape, the engine, grad modes, hooks, Function and gradcheck.

This layer knows no operators; the operators' layer above records them here.
"""

from . import functional, graph
from .anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from .backward import backward, grad
from .engine import is_checkpoint_valid as _is_checkpoint_valid
from .function import Function
from .gradcheck import gradcheck, gradgradcheck
from .mode import (
    enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled,
    is_multithreading_enabled, no_grad, set_grad_enabled, set_multithreading_enabled,
)
from .saved.values import SavedTensor as SavedTensor
from .traces.bindings import _record_function_with_args_enter as _record_function_with_args_enter
from .traces.bindings import _record_function_with_args_exit as _record_function_with_args_exit
from .traces.recorder import is_recording_here as _profiler_enabled
from .variable import Variable

__all__ = [
    "Function", "Variable", "backward", "detect_anomaly", "enable_grad", "functional", "grad",
    "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_anomaly_enabled",
    "is_grad_enabled", "is_inference_mode_enabled", "is_multithreading_enabled",
    "kineto_available", "no_grad", "set_detect_anomaly", "set_grad_enabled",
    "set_multithreading_enabled",
]


def kineto_available() -> bool:
    """Return whether torch.profiler can record a profile: always True.

    >>> torch.autograd.kineto_available()
    True
    """
    return True
