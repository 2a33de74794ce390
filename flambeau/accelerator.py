"""torch.accelerator: there is none."""

from __future__ import annotations

from typing import NoReturn

from .tensor.devices import device

__all__ = ["current_accelerator", "current_device_index", "device_count", "is_available",
           "set_device_index", "synchronize"]


class AcceleratorError(RuntimeError):
    """An error of an accelerator's runtime; nothing here raises it."""


class OutOfMemoryError(RuntimeError):
    """An accelerator's memory is used up; nothing here raises it."""


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def current_accelerator(check_available: bool = False) -> device | None:
    """None."""
    return None


def _refuse() -> NoReturn:
    raise RuntimeError("Cannot access accelerator device when none is available.")


def current_device_index() -> int:
    """RuntimeError: there is none."""
    _refuse()


def set_device_index(device: object) -> None:
    """RuntimeError: there is none."""
    _refuse()


def synchronize(device: object = None) -> None:
    """RuntimeError: there is none."""
    _refuse()
