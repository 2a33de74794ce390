"""The choice of attention implementation. flambeau has one, which serves all choices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...ops.attention.backend_choice import AttentionSettings, SDPBackend

__all__ = ["SDPBackend", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


_SWITCHES = {
    "math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION,
    "mem_efficient": SDPBackend.EFFICIENT_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
}


@contextlib.contextmanager
def sdpa_kernel(
    backends: list[SDPBackend] | SDPBackend, set_priority: bool = False
) -> Iterator[dict]:
    """Allow only these backends inside; refuse calls that none of them supports in PyTorch."""
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    previous = AttentionSettings.allowed
    AttentionSettings.allow(**{switch: backend in chosen for switch, backend in _SWITCHES.items()})
    try:
        yield {}
    finally:
        AttentionSettings.allowed = previous
