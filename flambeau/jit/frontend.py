"""torch.jit.frontend: the errors of scripting for syntax that TorchScript lacks."""

from __future__ import annotations

from ..tensor.absent import make_absent_getattr
from .checking.diagnostics import FrontendError, NotSupportedError, UnsupportedNodeError

__all__ = ["FrontendError", "NotSupportedError", "UnsupportedNodeError"]

__getattr__ = make_absent_getattr(__name__)
