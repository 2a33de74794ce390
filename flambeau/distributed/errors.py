"""Exceptions of torch.distributed: all are RuntimeErrors, as in PyTorch."""

from __future__ import annotations

__all__ = [
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError",
]


class DistError(RuntimeError):
    """Something went wrong between processes."""


class DistBackendError(DistError):
    """A collective failed: a process is gone, or did not take part within the timeout."""


class DistNetworkError(DistError):
    """A connection could not be made, or broke."""


class DistStoreError(DistError):
    """A store did not have a key within the timeout, or processes did not join it."""


class QueueEmptyError(DistStoreError):
    """A store's queue has no value, and the caller did not want to wait for one."""


for _error in (DistError, DistBackendError, DistNetworkError, DistStoreError, QueueEmptyError):
    _error.__module__ = "torch.distributed"  # where programs and tracebacks look for them
