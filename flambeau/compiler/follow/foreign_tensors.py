"""Foreign tensors: instances of classes that override `__torch_function__` or dispatch.

Their functions run Python instead of operators, so no program can compute them. Following ends as
soon as such a tensor is created or passed to a function; the rest of the call is eager.
"""

from __future__ import annotations

import threading
from typing import Any

from ...ops.interception import torch_dispatch, torch_function
from .hooks import ACTIVE


def needs_dispatch(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether any argument of a call is a foreign tensor."""
    return torch_function.takes(args, kwargs) or torch_dispatch.takes(args, kwargs)


def _end_for_class(cls: type) -> None:
    """Stop following this thread's call if an object of an overriding class is created."""
    session = ACTIVE.session
    if session is not None and session.thread == threading.get_ident() and (
        torch_function.overrides(cls) or torch_dispatch.dispatches(cls)
    ):
        session.leave()


torch_function.INSTANTIATED.append(_end_for_class)
