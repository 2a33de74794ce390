"""torch.cuda on a machine without: everything answers, and what needs a GPU says there is none."""

from __future__ import annotations

from typing import Any, NoReturn

from .tensor.devices import device as _Device

__all__ = [
    "current_device", "device", "device_count", "empty_cache", "get_device_name",
    "get_device_properties", "init", "ipc_collect", "is_available", "is_bf16_supported",
    "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_reserved", "reset_peak_memory_stats",
    "seed", "seed_all", "set_device", "synchronize",
]  # fmt: skip


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise AssertionError("Torch not compiled with CUDA enabled: flambeau runs on the CPU")


def is_available() -> bool:
    """False: flambeau runs on the CPU."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def manual_seed(seed: int) -> None:
    """Accepted: there is no GPU generator to seed."""


def manual_seed_all(seed: int) -> None:
    """Accepted: there is no GPU generator to seed."""


def seed() -> None:
    """Accepted: there is no GPU generator to seed."""


def seed_all() -> None:
    """Accepted: there is no GPU generator to seed."""


def empty_cache() -> None:
    """Accepted: there is nothing to free."""


def ipc_collect() -> None:
    """Accepted: there is nothing to free."""


def memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """0 bytes."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """0 bytes."""
    return 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Accepted: there is nothing to reset."""


init = synchronize = current_device = set_device = _refuse
get_device_name = get_device_properties = get_device_capability = _refuse
Stream = Event = _refuse


class device:
    """A context in which CUDA calls use one GPU; a negative index is accepted and does nothing."""

    def __init__(self, device: Any) -> None:
        device = _Device(device) if isinstance(device, str) else device
        index = getattr(device, "index", device)
        if index is not None and index >= 0:
            _refuse()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None
