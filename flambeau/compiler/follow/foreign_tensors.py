"""Foreign tensors: those of classes that override torch functions or dispatch.

Their functions run Python instead of operators, so no program computes them. A followed call ends
where such a tensor is created or passed to a function; the rest of the call is eager.
"""

from __future__ import annotations

import threading
from typing import Any

from ...ops.interception import torch_dispatch, torch_function
from .hooks import ACTIVE


def needs_dispatch(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether a call has arguments of overriding classes."""
    return torch_function.takes(args, kwargs) or torch_dispatch.takes(args, kwargs)


def _end_for_class(cls: type) -> None:
    """End this thread's followed call where an object of an overriding class appears."""
    session = ACTIVE.session
    if session is not None and session.thread == threading.get_ident() and (
        torch_function.overrides(cls) or torch_dispatch.dispatches(cls)
    ):
        session.leave()


torch_function.INSTANTIATED.append(_end_for_class)
