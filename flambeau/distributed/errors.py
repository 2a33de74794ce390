"""Exceptions of torch.distributed. All are RuntimeErrors, as in PyTorch."""

from __future__ import annotations

__all__ = [
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError",
]


class DistError(RuntimeError):
    """Base class of errors between processes."""


class DistBackendError(DistError):
    """A collective failed: a process is gone or did not join within the timeout."""


class DistNetworkError(DistError):
    """A connection could not be made, or broke."""


class DistStoreError(DistError):
    """A key was not set, or processes did not join the store, within the timeout."""


class QueueEmptyError(DistStoreError):
    """A nonblocking read found a store's queue empty."""


for _error in (DistError, DistBackendError, DistNetworkError, DistStoreError, QueueEmptyError):
    _error.__module__ = "torch.distributed"  # the module in tracebacks and imports
