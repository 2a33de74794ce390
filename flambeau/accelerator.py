"""torch.accelerator, which reports none; torch.Stream and torch.Event for the synchronous CPU."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from .tensor import devices
from .tensor.absent import make_absent_getattr

__all__ = ["current_accelerator", "device_count", "device_index", "is_available"]


class AcceleratorError(RuntimeError):
    """An error of an accelerator's runtime; never raised here."""


class OutOfMemoryError(RuntimeError):
    """An accelerator is out of memory; never raised here."""


def is_available() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def current_accelerator(check_available: bool = False) -> devices.device | None:
    """Return None."""
    return None


def _refuse(*arguments: object) -> NoReturn:
    raise RuntimeError("Cannot access accelerator device when none is available.")


def _absent(name: str) -> Callable[..., Any]:
    def function(*arguments: object) -> NoReturn:
        _refuse()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "RuntimeError: there is none."
    return function


class device_index:
    """A context manager that selects an accelerator; None changes nothing.

    >>> with torch.accelerator.device_index(None):
    ...     pass
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx, self.prev_idx = device, -1

    def __enter__(self) -> None:
        if self.idx is not None:
            _refuse()

    def __exit__(self, *exception: object) -> None:
        pass


_NAMES = (
    "current_device_idx", "current_device_index", "current_stream", "empty_cache",
    "empty_host_cache", "get_device_capability", "get_memory_info", "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device_idx",
    "set_device_index", "set_stream", "synchronize",
)
globals().update({name: _absent(name) for name in _NAMES})
__all__ += _NAMES  # noqa: PLE0605
__getattr__ = make_absent_getattr(__name__)


def _check_device(device: Any) -> devices.device:
    result = devices.device("cpu" if device is None else device)
    if result.type not in ("cpu", "meta"):
        raise RuntimeError(f"PyTorch is not linked with support for {result.type} devices")
    return result


def _refuse_events(device: devices.device) -> NoReturn:
    raise RuntimeError(f"{device.type} backend doesn't support events.")


class Stream:
    """A device's queue of work; the CPU's is always empty.

    Raises RuntimeError if the device does not exist. `priority` is accepted and ignored.

    >>> torch.Stream("cpu").query()
    True
    """

    def __init__(
        self, device: Any = None, *, priority: int = 0, stream_id: int = 0, device_index: int = -1,
        device_type: int = 0,
    ) -> None:
        self.device = _check_device(device)
        self.stream_id, self.device_index = stream_id, device_index
        self.device_type = device_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self) -> int:
        return hash((self.device.type, self.stream_id))

    def __repr__(self) -> str:
        return (f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, "
                f"stream_id={self.stream_id}")

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def query(self) -> bool:
        """Return True: all work is done."""
        return True

    def synchronize(self) -> None:
        """Return at once: all work is done."""

    def wait_event(self, event: Event) -> None:
        """Return at once: the event has happened."""

    def wait_stream(self, stream: Stream) -> None:
        """Raise RuntimeError: the CPU has no events."""
        _refuse_events(self.device)

    def record_event(self, event: Event | None = None) -> Event:
        """Raise RuntimeError: the CPU has no events."""
        _refuse_events(self.device)


class Event:
    """A mark in a stream. CPU streams have no events, so `record` raises RuntimeError.

    >>> torch.Event().query()
    True
    """

    event_id = 0

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device, self._enable_timing = _check_device(device), enable_timing

    def __repr__(self) -> str:
        return (f"torch.Event device_type={self.device.type}, device_index=-1, event_flag=0, "
                f"event_id={self.event_id}")

    def query(self) -> bool:
        """Return True: there is nothing to wait for."""
        return True

    def wait(self, stream: Stream | None = None) -> None:
        """Return at once."""

    def synchronize(self) -> None:
        """Return at once."""

    def record(self, stream: Stream | None = None) -> None:
        """Raise RuntimeError: the CPU has no events."""
        _refuse_events(self.device)

    def elapsed_time(self, other: Event) -> float:
        """Raise ValueError: neither event can have been recorded."""
        if not (self._enable_timing and other._enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        raise ValueError("Both events must be recorded before calculating elapsed time.")

    def ipc_handle(self) -> bytes:
        """Raise NotImplementedError, as PyTorch does."""
        raise NotImplementedError("torch.Event ipc is not supported yet, please open an issue if "
                                  "you need this!")
