"""Foreign tensors: sparse and quantized ones, and those of classes that override
`__torch_function__` or dispatch.

No program can compute their functions. Following ends as soon as such a tensor is created or passed
to a function; the rest of the call is eager.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from ...ops.interception import torch_dispatch, torch_function, window_stubs
from ...tensor.overlap import OverlappingCopies
from ...tensor.quantized import QuantizedCreated
from ...tensor.sparse import Created
from ..capture import capture
from .hooks import ACTIVE


def has_foreign(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether any argument of a call is a foreign tensor."""
    return torch_function.takes(args, kwargs) or torch_dispatch.takes(args, kwargs) \
        or window_stubs.takes_registered_kind(args, kwargs)


def _end_for_class(cls: type) -> bool:
    """Stop following this thread's call if an object of an overriding class is created.

    Returns whether the class is one.
    """
    if not torch_function.overrides(cls) and not torch_dispatch.dispatches(cls):
        return False
    _leave()
    return True


def _leave() -> None:
    session = ACTIVE.session
    if session is not None and session.thread == threading.get_ident():
        session.leave()


def _end_for_kind(refuse: Callable[[], None]) -> None:
    """Stop following before an operator on sparse or quantized tensors reads its arguments."""
    _leave()
    refuse()


torch_function.INSTANTIATED.append(_end_for_class)
Created.used = functools.partial(_end_for_kind, functools.partial(capture.refuse_kind, "sparse"))
QuantizedCreated.used = functools.partial(
    _end_for_kind, functools.partial(capture.refuse_kind, "quantized"))
OverlappingCopies.used = functools.partial(_end_for_kind, capture.refuse_overlapping_copy)
