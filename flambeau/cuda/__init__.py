"""torch.cuda without CUDA: queries report no GPU, and functions that need one raise."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ..tensor.absent import make_absent_getattr as _answering
from ..tensor.devices import device as _Device

from . import absent

def is_available() -> bool:
    """Return False: flambeau runs on the CPU."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


_initialized = False  # reversible layers ask it before they save the GPUs' random states


def is_initialized() -> bool:
    """Return False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return False."""
    return False


def manual_seed(seed: int) -> None:
    """No-op: there is no GPU generator to seed."""


def manual_seed_all(seed: int) -> None:
    """No-op: there is no GPU generator to seed."""


def seed() -> None:
    """No-op: there is no GPU generator to seed."""


def seed_all() -> None:
    """No-op: there is no GPU generator to seed."""


def empty_cache() -> None:
    """No-op: there is nothing to free."""


def ipc_collect() -> None:
    """No-op: there is nothing to free."""


def memory_allocated(device: Any = None) -> int:
    """Return 0 bytes."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """Return 0 bytes."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """Return 0 bytes."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """Return 0 bytes."""
    return 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """No-op: there is nothing to reset."""


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Return an empty dict: nothing is counted."""
    return OrderedDict()


def reset_peak_host_memory_stats() -> None:
    """No-op: there is nothing to reset."""


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Return an empty dict: nothing is counted."""
    return {}


def host_memory_stats() -> dict[str, Any]:
    """Return an empty dict: nothing is counted."""
    return OrderedDict()


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Return an empty dict: nothing is counted."""
    return {}


def list_gpu_processes(device: Any = None) -> str:
    """Return PyTorch's message for a missing NVIDIA package."""
    return "pynvml module not found, please install nvidia-ml-py"


def caching_allocator_enable(value: bool = True) -> None:
    """No-op: there is no GPU memory cache."""


def is_tf32_supported() -> bool:
    """Return False."""
    return False


def get_gencode_flags() -> str:
    """Return the compiler flags for supported GPU architectures: none."""
    return ""


def get_arch_list() -> list[str]:
    """Return the supported GPU architectures: none."""
    return []


def is_current_stream_capturing() -> bool:
    """Return False: there is no stream."""
    return False


def get_rng_state_all() -> list[Any]:
    """Return the generator states of all GPUs: none."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Raise an error if there is a state: there are no GPUs."""
    if list(new_states):
        absent.refuse()


class device:
    """A context manager that selects a GPU; a negative index is accepted and does nothing."""

    def __init__(self, device: Any) -> None:
        device = _Device(device) if isinstance(device, str) else device
        index = getattr(device, "index", device)
        if index is not None and index >= 0:
            absent.refuse()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


class device_of(device):
    """A context manager that selects the GPU of a tensor, if it is on one."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class StreamContext:
    """The context manager of `stream`; with None it changes nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


class cudaStatus:
    """CUDA's status codes."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


def stream(stream: Any) -> StreamContext:
    """Return a context manager that selects a stream; with None it changes nothing."""
    return StreamContext(stream)


@contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """A context manager that does nothing: there is no GPU memory cache."""
    yield


default_generators: tuple[Any, ...] = ()
has_half = True
has_magma = False
max_memory_cached, memory_cached = max_memory_reserved, memory_reserved
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats

globals().update(absent.collect_names())
globals().update(absent.create_submodules(__name__, globals()))
__all__ = [name for name in globals() if not name.startswith("_")
           and name not in ("Any", "Iterator", "OrderedDict", "absent", "annotations",
                            "contextmanager", "import_module")]


def __getattr__(name: str) -> Any:
    if name in ("amp", "nvtx"):
        return import_module(f"{__name__}.{name}")
    return _lacking(name)


_lacking = _answering(__name__)
