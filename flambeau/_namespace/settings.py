"""Process-wide settings: threads, determinism, precision, warnings. Most have one value."""

from __future__ import annotations

from typing import Any

from ..native.foundation.public_names import class_of
from ..native.foundation.user_frames import OneTime
from ..tensor.ambient import note_change
from ..tensor.determinism import Determinism, Filling
from ..tensor.devices import device

__all__ = [
    "_running_with_deploy",
    "are_deterministic_algorithms_enabled",
    "compiled_with_cxx11_abi",
    "get_deterministic_debug_mode",
    "get_device_module",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "init_num_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_vulkan_available",
    "is_warn_always_enabled",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "set_warn_always",
    "use_deterministic_algorithms",
]


class _Chosen:
    warn_only = False  # as requested, with determinism or without


_DEBUG_MODES = ("default", "warn", "error")


def get_num_threads() -> int:
    """How many threads kernels, programs and matrix products use: FLAMBEAU_THREADS at first.

    >>> torch.get_num_threads() > 0
    True
    """
    from ..ops.core import threads

    return threads.get_num_threads()


def set_num_threads(int: int) -> None:
    """Set how many threads kernels, programs and matrix products use.

    >>> torch.set_num_threads(torch.get_num_threads())
    """
    from ..ops.core import threads

    threads.set_num_threads(int)


def init_num_threads() -> None:
    """Accepted: threads need no start.

    >>> torch.init_num_threads()
    """


def get_num_interop_threads() -> int:
    """1: operators run one after the other.

    >>> torch.get_num_interop_threads()
    1
    """
    return 1


def set_num_interop_threads(int: int) -> None:
    """Accepted: operators run one after the other. RuntimeError unless it is positive.

    >>> torch.set_num_interop_threads(4)
    """
    if not -(1 << 63) <= int < 1 << 63:
        raise ValueError("Overflow when unpacking long long")
    if int <= 0:
        raise RuntimeError(f"set_num_interop_threads expects a positive integer, got {int}")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Give the same bits wherever a program begins: no operator switches to a kernel after its
    first calls, and no trainer to a compiled step when it is ready.

    >>> torch.use_deterministic_algorithms(True)
    >>> torch.are_deterministic_algorithms_enabled()
    True
    >>> torch.use_deterministic_algorithms(False)
    """
    for place, value in (("'mode' (position 1)", mode), ("'warn_only'", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(f"_set_deterministic_algorithms(): argument {place} must be bool, "
                            f"not {type(value).__name__}")
    _choose("default" if not mode else "warn" if warn_only else "error")
    _Chosen.warn_only = warn_only


def _choose(mode: str) -> None:
    """Set the mode. Kernels are for later calls than the first, which a resumed process begins
    with; new memory is filled."""
    from ..native.runtime.background_jit import KernelPolicy

    Determinism.mode, _Chosen.warn_only = mode, mode == "warn"
    KernelPolicy.allowed = mode == "default"
    Filling.deterministic = mode != "default"
    note_change()


def are_deterministic_algorithms_enabled() -> bool:
    """Whether deterministic algorithms were requested.

    >>> torch.are_deterministic_algorithms_enabled()
    False
    """
    return Determinism.mode != "default"


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether deterministic algorithms were requested with warn_only.

    >>> torch.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _Chosen.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Ask for determinism by 'default', 'warn', 'error' or 0, 1, 2.

    >>> torch.set_deterministic_debug_mode("default")
    """
    if isinstance(debug_mode, str) and debug_mode in _DEBUG_MODES:
        _choose(debug_mode)
    elif isinstance(debug_mode, int) and 0 <= debug_mode <= 2:
        _choose(_DEBUG_MODES[debug_mode])
    elif not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {class_of(debug_mode)}")
    else:
        raise RuntimeError(
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`, or 0, 1, 2, "
            f"but got {debug_mode}"
        )


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2 for 'default', 'warn', 'error'.

    >>> torch.get_deterministic_debug_mode()
    0
    """
    return _DEBUG_MODES.index(Determinism.mode)


def set_float32_matmul_precision(precision: str) -> None:
    """Set how many bits of float32 numbers count in matrix products: all 24, 16 or 8.

    'high' splits a number into two bfloat16 numbers, 'medium' rounds it to one, in large products
    on processors with a matrix unit (Intel's AMX). Elsewhere, and with 'highest', products are
    computed in float32.

    >>> torch.set_float32_matmul_precision("high")
    >>> torch.get_float32_matmul_precision()
    'high'
    >>> torch.set_float32_matmul_precision("highest")
    """
    from ..native.target.matmul_precision import BF16_TERMS, set_precision

    if precision not in BF16_TERMS:
        raise RuntimeError(f"{precision} is not one of 'highest', 'high', or 'medium'")
    set_precision(precision)


def get_float32_matmul_precision() -> str:
    """The precision of matrix products; 'highest' by default.

    >>> torch.get_float32_matmul_precision()
    'highest'
    """
    from ..native.target.matmul_precision import MatmulPrecision

    return MatmulPrecision.name


def set_flush_denormal(mode: bool) -> bool:
    """False: denormal numbers are computed with, as IEEE 754 has it.

    >>> torch.set_flush_denormal(True)
    False
    """
    return False


def set_warn_always(b: bool) -> None:
    """Whether warnings that appear once per process appear every time, as Python's filters allow.

    >>> torch.set_warn_always(False)
    """
    OneTime.always = b


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was last given.

    >>> torch.is_warn_always_enabled()
    False
    """
    return OneTime.always


def is_vulkan_available() -> bool:
    """False.

    >>> torch.is_vulkan_available()
    False
    """
    return False


def compiled_with_cxx11_abi() -> bool:
    """True, as for PyTorch's own wheels; there is no C++ here.

    >>> torch.compiled_with_cxx11_abi()
    True
    """
    return True


def _running_with_deploy() -> bool:
    """False: there is one interpreter.

    >>> torch._running_with_deploy()
    False
    """
    return False


def get_device_module(device_: Any = None) -> Any:
    """Return the module torch.cpu, torch.cuda, ... of a device. Raises RuntimeError without one.

    >>> torch.get_device_module("cpu") is torch.cpu
    True
    """
    import importlib

    name = "cpu" if device_ is None else device(device_).type
    try:
        return importlib.import_module(f"flambeau.{name}")
    except ModuleNotFoundError:
        raise RuntimeError(f"Device '{name}' does not have a corresponding module registered as "
                           f"'torch.{name}'.") from None
