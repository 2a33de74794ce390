"""The functions of torch.cuda that need a GPU: PyTorch's parameters; calls raise AssertionError."""

from __future__ import annotations

from typing import Any, NoReturn

from ...native.foundation.user_frames import add_notes


def refuse() -> NoReturn:
    """Raise AssertionError, like PyTorch without CUDA."""
    raise add_notes(
        AssertionError("Torch not compiled with CUDA enabled"), "flambeau runs on the CPU."
    )


def caching_allocator_alloc(size: Any, device: Any = None, stream: Any = None) -> NoReturn:
    refuse()


def caching_allocator_delete(mem_ptr: Any) -> NoReturn:
    refuse()


def can_device_access_peer(device: Any, peer_device: Any) -> NoReturn:
    refuse()


def change_current_allocator(allocator: Any) -> NoReturn:
    refuse()


def check_error(res: Any) -> NoReturn:
    refuse()


def clock_rate(device: Any = None) -> NoReturn:
    refuse()


def cudart() -> NoReturn:
    refuse()


def current_blas_handle() -> NoReturn:
    refuse()


def current_device() -> NoReturn:
    refuse()


def current_solver_handle() -> NoReturn:
    refuse()


def current_stream(device: Any = None) -> NoReturn:
    refuse()


def default_stream(device: Any = None) -> NoReturn:
    refuse()


def device_memory_used(device: Any = None) -> NoReturn:
    refuse()


def get_allocator_backend() -> NoReturn:
    refuse()


def get_device_capability(device: Any = None) -> NoReturn:
    refuse()


def get_device_name(device: Any = None) -> NoReturn:
    refuse()


def get_device_properties(device: Any = None) -> NoReturn:
    refuse()


def get_per_process_memory_fraction(device: Any = None) -> NoReturn:
    refuse()


def get_rng_state(device: Any = "cuda") -> NoReturn:
    refuse()


def get_stream_from_external(data_ptr: Any, device: Any = None) -> NoReturn:
    refuse()


def get_sync_debug_mode() -> NoReturn:
    refuse()


def graph_pool_handle() -> NoReturn:
    refuse()


def init() -> NoReturn:
    refuse()


def initial_seed() -> NoReturn:
    refuse()


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False,
    pool: Any = None,
) -> NoReturn:
    refuse()


def mem_get_info(device: Any = None) -> NoReturn:
    refuse()


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> NoReturn:
    refuse()


def memory_summary(device: Any = None, abbreviated: bool = False) -> NoReturn:
    refuse()


def memory_usage(device: Any = None) -> NoReturn:
    refuse()


def power_draw(device: Any = None) -> NoReturn:
    refuse()


def reset_accumulated_host_memory_stats() -> NoReturn:
    refuse()


def reset_accumulated_memory_stats(device: Any = None) -> NoReturn:
    refuse()


def set_device(device: Any) -> NoReturn:
    refuse()


def set_per_process_memory_fraction(fraction: Any, device: Any = None) -> NoReturn:
    refuse()


def set_rng_state(new_state: Any, device: Any = "cuda") -> NoReturn:
    refuse()


def set_stream(stream: Any) -> NoReturn:
    refuse()


def set_sync_debug_mode(debug_mode: Any) -> NoReturn:
    refuse()


def synchronize(device: Any = None) -> NoReturn:
    refuse()


def temperature(device: Any = None) -> NoReturn:
    refuse()


def use_mem_pool(pool: Any, device: Any = None) -> NoReturn:
    refuse()


def utilization(device: Any = None) -> NoReturn:
    refuse()
