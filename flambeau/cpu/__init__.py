"""torch.cpu: the CPU behind an accelerator's interface, for device-agnostic programs."""

from __future__ import annotations

import contextlib
import os
import platform
from types import TracebackType
from typing import Any

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count",
    "get_capabilities", "is_available", "is_initialized", "set_device", "stream", "synchronize",
]


class Event:
    """A mark in a stream. CPU work is synchronous, so it has always happened."""

    def query(self) -> bool:
        """Return True."""
        return True

    def record(self, stream: Any = None) -> None:
        """No-op: CPU work is synchronous."""

    def synchronize(self) -> None:
        """No-op: CPU work is synchronous."""

    def wait(self, stream: Any = None) -> None:
        """No-op: CPU work is synchronous."""


class Stream:
    """A stream of work; on the CPU, work is done when the call returns."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """No-op: CPU work is synchronous."""

    def record_event(self) -> None:
        """No-op: CPU work is synchronous."""

    def wait_event(self, event: Any) -> None:
        """No-op: CPU work is synchronous."""


class StreamContext:
    """A context manager that selects a stream."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


_default = Stream()


def is_available() -> bool:
    """Return True."""
    return True


def is_initialized() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def current_device() -> str:
    """Return 'cpu'."""
    return "cpu"


def set_device(device: Any) -> None:
    """No-op: there is only one device."""


def synchronize(device: Any = None) -> None:
    """No-op: CPU work is synchronous."""


def current_stream(device: Any = None) -> Stream:
    """Return the only stream."""
    return _default


def stream(stream: Stream | None) -> StreamContext:
    """Return a context manager that selects a stream."""
    return StreamContext(stream)


# PyTorch's names of features, if they differ from LLVM's by more than a separator.
_FEATURES = {
    "sse4_1": "sse4.1", "sse4_2": "sse4.2", "fma3": "fma", "clflush": "fxsr",
    "avx_ne_convert": "avxneconvert", "avx10_1": "avx10.1", "avx10_2": "avx10.2",
}
_X86 = """sse sse2 sse3 ssse3 sse4_1 sse4_2 sse4a avx avx2 avx_vnni avx_vnni_int8 avx_vnni_int16
    avx_ne_convert avx10_1 avx10_2 avx512_f avx512_bw avx512_cd avx512_dq avx512_vl avx512_ifma
    avx512_vbmi avx512_vbmi2 avx512_bitalg avx512_vpopcntdq avx512_vnni avx512_bf16 avx512_fp16
    avx512_vp2intersect avx512_4vnniw avx512_4fmaps amx_tile amx_int8 amx_bf16 amx_fp16 fma3 fma4
    f16c bmi bmi2 popcnt lzcnt aes sha clflush clflushopt clwb"""
_ARM = {"neon": "neon", "fp16": "fullfp16", "bf16": "bf16", "i8mm": "i8mm", "dot": "dotprod",
        "sve": "sve", "sve2": "sve2", "sme": "sme", "sme2": "sme2"}


def _count_sockets_and_cores() -> tuple[int, int]:
    """Count sockets and cores in /proc/cpuinfo; else assume one socket and one core per CPU."""
    ids: dict[str, str] = {}
    cores = set()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            name, _, value = line.partition(":")
            ids[name.strip()] = value.strip()
            if name.strip() == "core id":
                cores.add((ids.get("physical id"), value.strip()))
    return len({socket for socket, _ in cores}) or 1, len(cores) or os.cpu_count() or 1


def get_capabilities() -> dict[str, Any]:
    """Describe the processor: architecture, core counts, caches and instruction set features.

    >>> capabilities = torch.cpu.get_capabilities()
    >>> sorted(capabilities)[:2], capabilities["num_logical_cores"] > 0
    (['aes', 'amx_bf16'], True)
    """
    from ..native.target.cache_sizes import detect_l1d_bytes, detect_l2_bytes
    from ..native.target.cpu import describe_cpu
    from ..native.target.machine import llvm_version

    _, name, features = describe_cpu(llvm_version())
    available = {feature[1:] for feature in features if feature.startswith("+")}
    architecture = platform.machine()
    sockets, cores = _count_sockets_and_cores()
    result: dict[str, Any] = {
        "architecture": architecture, "cpu_name": platform.processor() or name,
        "num_sockets": sockets, "num_physical_cores": cores,
        "num_logical_cores": os.cpu_count() or 1, "l1d_cache_size": detect_l1d_bytes(),
        "l2_cache_size": detect_l2_bytes(),
    }
    if architecture in ("aarch64", "arm64"):
        return result | {name: feature in available for name, feature in _ARM.items()}
    for feature in _X86.split():
        names = {_FEATURES.get(feature, feature), feature.replace("_", ""),
                 feature.replace("_", "-")}
        result[feature] = not names.isdisjoint(available)
    return result
