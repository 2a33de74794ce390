"""The names of torch.cuda that need a GPU: same parameters as PyTorch's; calls raise.

PyTorch built for the CPU has the same names and errors. Programs use them in annotations and at
import time, for runs on other machines.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from ...native.foundation.user_frames import add_notes
from ...tensor.absent import answer_for_absent


def refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise AssertionError, like PyTorch without CUDA."""
    raise add_notes(
        AssertionError("Torch not compiled with CUDA enabled"), "flambeau runs on the CPU."
    )


# Functions, as lambdas that define their parameters.
_FUNCTIONS: dict[str, Callable[..., None]] = {
    **dict.fromkeys((
        "clock_rate", "current_stream", "default_stream", "device_memory_used",
        "get_device_capability", "get_device_name", "get_device_properties",
        "get_per_process_memory_fraction", "mem_get_info", "memory_usage",
        "power_draw", "reset_accumulated_memory_stats", "synchronize", "temperature",
        "utilization",
    ), lambda device=None: None),
    **dict.fromkeys((
        "cudart", "current_blas_handle", "current_device", "current_solver_handle",
        "get_allocator_backend", "get_sync_debug_mode", "graph_pool_handle", "init",
        "initial_seed", "reset_accumulated_host_memory_stats",
    ), lambda: None),
    "caching_allocator_alloc": lambda size, device=None, stream=None: None,
    "caching_allocator_delete": lambda mem_ptr: None,
    "can_device_access_peer": lambda device, peer_device: None,
    "change_current_allocator": lambda allocator: None,
    "check_error": lambda res: None,
    "get_rng_state": lambda device="cuda": None,
    "get_stream_from_external": lambda data_ptr, device=None: None,
    "make_graphed_callables": lambda callables, sample_args, num_warmup_iters=3,
        allow_unused_input=False, pool=None: None,
    "memory_snapshot": lambda mempool_id=None, include_traces=True: None,
    "memory_summary": lambda device=None, abbreviated=False: None,
    "set_device": lambda device: None,
    "set_per_process_memory_fraction": lambda fraction, device=None: None,
    "set_rng_state": lambda new_state, device="cuda": None,
    "set_stream": lambda stream: None,
    "set_sync_debug_mode": lambda debug_mode: None,
    "use_mem_pool": lambda pool, device=None: None,
}

_KINDS = (
    "BFloat16", "Bool", "Byte", "Char", "ComplexDouble", "ComplexFloat", "Double", "Float", "Half",
    "Int", "Long", "Short",
)


def _refusing(name: str, parameters: Callable[..., None]) -> Callable[..., NoReturn]:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        refuse()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"AssertionError: torch.cuda.{name} needs a GPU."
    function.__signature__ = inspect.signature(parameters)  # type: ignore[attr-defined]
    return function


class Stream:
    """A stream of GPU work; raises RuntimeError without a GPU."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        raise RuntimeError(f"torch.cuda.{type(self).__name__} requires CUDA support")


class ExternalStream(Stream):
    """A stream created elsewhere; raises RuntimeError without a GPU."""

    def __init__(self, stream_ptr: Any, device: Any = None, **kwargs: Any) -> None:
        super().__init__(device, **kwargs)


class _Dummy:
    """Base class of GPU objects; creating one raises RuntimeError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"Tried to instantiate dummy base class {type(self).__name__}")


class Event(_Dummy):
    """An event in a stream of GPU work; raises RuntimeError without a GPU."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
        external: bool = False,
    ) -> None:
        super().__init__()


class CUDAGraph(_Dummy):
    """A recorded sequence of GPU work; raises RuntimeError without a GPU."""

    def __init__(self, keep_graph: bool = False) -> None:
        super().__init__()


class MemPool(_Dummy):
    """A pool of GPU memory; raises RuntimeError without a GPU."""

    def __init__(
        self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False
    ) -> None:
        super().__init__()


class CUDAPluggableAllocator(_Dummy):
    """An allocator from a user's library; raises RuntimeError without a GPU."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        super().__init__()


class GreenContext(_Dummy):
    """A share of a GPU's processors; raises RuntimeError without a GPU."""


class graph:
    """A context manager that records a CUDAGraph; raises RuntimeError without a GPU."""

    def __init__(
        self, cuda_graph: Any, pool: Any = None, stream: Any = None,
        capture_error_mode: str = "global", enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:
        Stream()


class DeferredCudaCallError(Exception):
    """An error of a call that was deferred until CUDA is initialized."""


class CudaError(RuntimeError):
    """A CUDA error, by its code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA error ({code})")


def _storage_or_tensor(name: str) -> type:
    def refused(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        if name.endswith("Storage"):
            refuse()
        raise TypeError(f"type torch.cuda.{name} not available. Torch not compiled with CUDA "
                        "enabled.")

    return type(name, (), {"__init__": refused, "__module__": "torch.cuda",
                           "__doc__": f"torch.cuda.{name}, which needs a GPU."})


def names() -> dict[str, Any]:
    """Return all names defined here, with their objects."""
    classes = (CUDAGraph, CUDAPluggableAllocator, CudaError, DeferredCudaCallError, Event,
               ExternalStream, GreenContext, MemPool, Stream, graph)
    storages = [kind + "Storage" for kind in _KINDS]
    tensors = [kind + "Tensor" for kind in _KINDS if "Complex" not in kind]
    return {
        **{name: _refusing(name, parameters) for name, parameters in _FUNCTIONS.items()},
        **{kind.__name__: kind for kind in classes},
        **{name: _storage_or_tensor(name) for name in (*storages, *tensors)},
    }


# The modules that contain parts of torch.cuda in PyTorch.
_HOMES = {
    "graphs": "CUDAGraph graph graph_pool_handle is_current_stream_capturing "
              "make_graphed_callables",
    "memory": "CUDAPluggableAllocator MemPool caching_allocator_alloc caching_allocator_delete "
              "caching_allocator_enable change_current_allocator empty_cache "
              "get_allocator_backend get_per_process_memory_fraction host_memory_stats "
              "list_gpu_processes max_memory_allocated max_memory_cached max_memory_reserved "
              "mem_get_info memory_allocated memory_cached memory_reserved memory_snapshot "
              "memory_stats memory_stats_as_nested_dict memory_summary "
              "reset_accumulated_memory_stats reset_max_memory_allocated "
              "reset_max_memory_cached reset_peak_memory_stats "
              "set_per_process_memory_fraction use_mem_pool",
    "random": "get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed "
              "seed_all set_rng_state set_rng_state_all",
    "streams": "Event ExternalStream Stream",
}


def settle(package: str, namespace: dict[str, Any]) -> dict[str, ModuleType]:
    """Create the modules, registered for `import package.module`, and return them by name."""
    result = {}
    for home, inhabitants in _HOMES.items():
        module = ModuleType(f"{package}.{home}", f"Where PyTorch keeps {inhabitants}.")
        module.__spec__ = ModuleSpec(module.__name__, None)
        module.__dict__.update({name: namespace[name] for name in inhabitants.split()})
        answer_for_absent(module)
        sys.modules[module.__name__] = result[home] = module
    return result
