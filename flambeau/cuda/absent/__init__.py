"""The names of torch.cuda that need a GPU, and the modules in which PyTorch defines them.

PyTorch built for the CPU has the same names and errors. Programs use them in annotations and at
import time, for runs on other machines.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any

from ...tensor.absent import answer_for_absent
from . import classes, functions
from .functions import refuse

__all__ = ["collect_names", "create_submodules", "refuse"]

# The modules that contain parts of torch.cuda in PyTorch, and their names.
_SUBMODULES = {
    "graphs": (
        "CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing",
        "make_graphed_callables",
    ),
    "memory": (
        "CUDAPluggableAllocator", "MemPool", "caching_allocator_alloc",
        "caching_allocator_delete", "caching_allocator_enable", "change_current_allocator",
        "empty_cache", "get_allocator_backend", "get_per_process_memory_fraction",
        "host_memory_stats", "list_gpu_processes", "max_memory_allocated", "max_memory_cached",
        "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached",
        "memory_reserved", "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict",
        "memory_summary", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
        "reset_max_memory_cached", "reset_peak_memory_stats", "set_per_process_memory_fraction",
        "use_mem_pool",
    ),
    "random": (
        "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all",
        "seed", "seed_all", "set_rng_state", "set_rng_state_all",
    ),
    "streams": ("Event", "ExternalStream", "Stream"),
}


def collect_names() -> dict[str, Any]:
    """Return all functions and classes of torch.cuda that need a GPU, by name."""
    names = {**_select_own(functions, FunctionType), **_select_own(classes, type)}
    for name, function in names.items():
        if isinstance(function, FunctionType):
            function.__doc__ = f"AssertionError: torch.cuda.{name} needs a GPU."
    return {**names, **classes.create_typed_classes()}


def _select_own(module: ModuleType, kind: type) -> dict[str, Any]:
    """Return the public objects of a kind that a module itself defines for torch.cuda."""
    return {
        name: value for name, value in vars(module).items()
        if isinstance(value, kind) and value.__module__ == module.__name__
        and not name.startswith("_") and value not in (refuse, classes.create_typed_classes)
    }


def create_submodules(package: str, namespace: dict[str, Any]) -> dict[str, ModuleType]:
    """Create the modules, registered for `import package.module`, and return them by name."""
    modules = {}
    for path, names in _SUBMODULES.items():
        module = ModuleType(f"{package}.{path}", f"Where PyTorch defines {', '.join(names)}.")
        module.__spec__ = ModuleSpec(module.__name__, None)
        module.__dict__.update({name: namespace[name] for name in names})
        answer_for_absent(module)
        sys.modules[module.__name__] = modules[path] = module
    return modules
