"""Names of autocast settings with the device in them, which PyTorch keeps and warns of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..native.foundation.user_frames import warn
from . import autocast_mode as _mode

_DEVICES = {"cpu": "cpu", "gpu": "cuda", "xla": "xla", "ipu": "ipu"}


def _deprecated(old: str, new: str) -> None:
    warn(
        f"torch.{old} is deprecated. Please use torch.{new} instead.",
        DeprecationWarning,
    )


def _getter(name: str, device: str, of: Callable[[str], Any]) -> Callable[[], Any]:
    def get() -> Any:
        _deprecated(f"{name}()", f"{of.__name__}('{device}')")
        return of(device)

    return get


def _setter(name: str, device: str, value: str, of: Callable[..., None]) -> Callable[[Any], None]:
    def put(setting: Any) -> None:
        _deprecated(f"{name}({value})", f"{of.__name__}('{device}', {value})")
        of(device, setting)

    return put


def _names() -> dict[str, Callable[..., Any]]:
    result: dict[str, Callable[..., Any]] = {}
    for short, device in _DEVICES.items():
        name = f"get_autocast_{short}_dtype"
        result[name] = _getter(name, device, _mode.get_autocast_dtype)
        name = f"set_autocast_{short}_dtype"
        result[name] = _setter(name, device, "dtype", _mode.set_autocast_dtype)
        if short == "gpu":
            continue  # `is_autocast_enabled()` itself
        name = f"is_autocast_{short}_enabled"
        result[name] = _getter(name, device, _mode.is_autocast_enabled)
        name = f"set_autocast_{short}_enabled"
        result[name] = _setter(name, device, "enabled", _mode.set_autocast_enabled)
    for name, function in result.items():
        function.__name__ = function.__qualname__ = name
        function.__doc__ = "Deprecated: the same function without the device in its name."
    return result


NAMES = _names()


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return NAMES[name]
    raise AttributeError(f"module 'torch.amp.device_names' has no attribute '{name}'")
