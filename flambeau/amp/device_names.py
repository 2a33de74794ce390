"""Deprecated autocast functions with a device in their name, such as get_autocast_cpu_dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..native.foundation.user_frames import warn
from . import autocast_mode as _mode

_DEVICES = {"cpu": "cpu", "gpu": "cuda", "xla": "xla", "ipu": "ipu"}


def _warn_deprecated(old: str, new: str) -> None:
    warn(
        f"torch.{old} is deprecated. Please use torch.{new} instead.",
        DeprecationWarning,
    )


def _build_getter(name: str, device: str, function: Callable[[str], Any]
                  ) -> Callable[[], Any]:
    def get() -> Any:
        _warn_deprecated(f"{name}()", f"{function.__name__}('{device}')")
        return function(device)

    return get


def _build_setter(name: str, device: str, value: str, function: Callable[..., None]
                  ) -> Callable[[Any], None]:
    def put(setting: Any) -> None:
        _warn_deprecated(f"{name}({value})", f"{function.__name__}('{device}', {value})")
        function(device, setting)

    return put


def _build_functions() -> dict[str, Callable[..., Any]]:
    result: dict[str, Callable[..., Any]] = {}
    for short, device in _DEVICES.items():
        name = f"get_autocast_{short}_dtype"
        result[name] = _build_getter(name, device, _mode.get_autocast_dtype)
        name = f"set_autocast_{short}_dtype"
        result[name] = _build_setter(name, device, "dtype", _mode.set_autocast_dtype)
        if short == "gpu":
            continue  # `is_autocast_enabled()` itself
        name = f"is_autocast_{short}_enabled"
        result[name] = _build_getter(name, device, _mode.is_autocast_enabled)
        name = f"set_autocast_{short}_enabled"
        result[name] = _build_setter(name, device, "enabled", _mode.set_autocast_enabled)
    for name, function in result.items():
        function.__name__ = function.__qualname__ = name
        function.__doc__ = "Deprecated: the same function without the device in its name."
    return result


NAMES = _build_functions()


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return NAMES[name]
    raise AttributeError(f"module 'torch.amp.device_names' has no attribute '{name}'")
