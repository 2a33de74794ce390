"""torch._guards: which FakeTensorMode is active. Guards of compiled steps are in compiler/."""

from __future__ import annotations

from typing import Any

from ._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from .tensor.absent import make_absent_getattr as _answering
from .utils._python_dispatch import _get_current_dispatch_mode_stack
from .utils._pytree import tree_leaves

__all__ = ["active_fake_mode", "detect_fake_mode"]


def active_fake_mode() -> FakeTensorMode | None:
    """Return the innermost FakeTensorMode that runs, or None.

    >>> torch._guards.active_fake_mode() is None
    True
    """
    modes = reversed(_get_current_dispatch_mode_stack())
    return next((mode for mode in modes if isinstance(mode, FakeTensorMode)), None)


def detect_fake_mode(inputs: Any = None) -> FakeTensorMode | None:
    """Return the FakeTensorMode that runs, or that of the first fake tensor among the inputs."""
    active = active_fake_mode()
    if active is not None:
        return active
    fakes = (x for x in tree_leaves(inputs) if isinstance(x, FakeTensor))
    return next((x.fake_mode for x in fakes), None)


__getattr__ = _answering(__name__)
