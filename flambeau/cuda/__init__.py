"""torch.cuda on a machine without: everything answers, and what needs a GPU says there is none."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ..tensor.absent import lacking as _answering
from ..tensor.devices import device as _Device

from . import absent

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


def reset_peak_host_memory_stats() -> None:
    """Accepted: there is nothing to reset."""


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Nothing is counted: an empty dict."""
    return {}


def host_memory_stats() -> dict[str, Any]:
    """Nothing is counted: an empty dict."""
    return OrderedDict()


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Nothing is counted: an empty dict."""
    return {}


def list_gpu_processes(device: Any = None) -> str:
    """What PyTorch says where NVIDIA's package is not installed."""
    return "pynvml module not found, please install nvidia-ml-py"


def caching_allocator_enable(value: bool = True) -> None:
    """Accepted: there is no cache of a GPU's memory."""


def is_tf32_supported() -> bool:
    """False."""
    return False


def get_gencode_flags() -> str:
    """The compiler's flags for the kinds of GPU that there is code for: none."""
    return ""


def get_arch_list() -> list[str]:
    """The kinds of GPU that there is code for: none."""
    return []


def is_current_stream_capturing() -> bool:
    """False: there is no stream."""
    return False


def get_rng_state_all() -> list[Any]:
    """The generators' states of all GPUs: none."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Set the generators of all GPUs, of which there is none."""
    for state in new_states:
        absent.refuse(state)


class device:
    """A context in which CUDA calls use one GPU; a negative index is accepted and does nothing."""

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
    """A context in which CUDA calls use the GPU that a tensor is on, if it is on one."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class StreamContext:
    """The context that `stream` gives; without a stream it changes nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


class cudaStatus:
    """CUDA's codes for how a call went."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


def stream(stream: Any) -> StreamContext:
    """A context in which work goes to a stream; without one (None) it changes nothing."""
    return StreamContext(stream)


@contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """A context without a GPU's cache of memory, of which there is none."""
    yield


default_generators: tuple[Any, ...] = ()
has_half = True
has_magma = False
max_memory_cached, memory_cached = max_memory_reserved, memory_reserved
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats

globals().update(absent.names())
globals().update(absent.settle(__name__, globals()))
__all__ = [name for name in globals() if not name.startswith("_")
           and name not in ("Any", "Iterator", "OrderedDict", "absent", "annotations",
                            "contextmanager", "import_module")]


def __getattr__(name: str) -> Any:
    if name in ("amp", "nvtx"):
        return import_module(f"{__name__}.{name}")
    return _lacking(name)


_lacking = _answering(__name__)
