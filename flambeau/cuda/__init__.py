"""torch.cuda on a machine without: everything answers, and what needs a GPU says there is none."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import nullcontext
from importlib import import_module
from typing import Any, NoReturn

from ..tensor.devices import device as _Device

__all__ = [
    "Event", "Stream", "amp", "current_device", "current_stream", "default_stream", "device",
    "device_count", "empty_cache", "get_arch_list", "get_device_capability", "get_device_name",
    "get_device_properties", "get_rng_state", "get_rng_state_all", "init", "ipc_collect",
    "is_available", "is_bf16_supported", "is_current_stream_capturing", "is_initialized",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_reserved",
    "mem_get_info", "memory_allocated", "memory_reserved", "memory_stats", "nvtx",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state",
    "set_rng_state_all", "stream", "synchronize",
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


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Nothing is counted: an empty dict."""
    return OrderedDict()


def get_arch_list() -> list[str]:
    """The kinds of GPU that there is code for: none."""
    return []


def is_current_stream_capturing() -> bool:
    """False: there is no stream."""
    return False


init = synchronize = current_device = set_device = _refuse
get_device_name = get_device_properties = get_device_capability = _refuse
current_stream = default_stream = mem_get_info = get_rng_state = set_rng_state = _refuse


def get_rng_state_all() -> list[Any]:
    """The generators' states of all GPUs: none."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Sets the generators of all GPUs, of which there is none."""
    for state in new_states:
        set_rng_state(state)


class Stream:
    """A queue of work for a GPU: RuntimeError without one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"torch.cuda.{type(self).__name__} requires CUDA support")


class Event(Stream):
    """A mark in a queue of work for a GPU: RuntimeError without one."""


def stream(stream: Any) -> Any:
    """A context in which work goes to a stream; without one (None) it changes nothing."""
    return nullcontext()


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


def __getattr__(name: str) -> Any:
    if name in ("amp", "nvtx"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'torch.cuda' has no attribute '{name}'")
