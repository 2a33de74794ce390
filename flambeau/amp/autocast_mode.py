"""autocast: a region, or a function, whose matrix products and convolutions run in bfloat16."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..native.foundation.context_wrappers import note_wrapper
from ..native.foundation.user_frames import warn
from ..ops.core.autocast import AUTOCAST, STATE
from ..tensor import Tensor, dtype
from ..tensor import dtypes as types
from ..tensor.devices import device as Device

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_OTHERS = ("cuda", "xpu", "hpu", "mtia", "maia", "mps", "xla", "ipu")
_enabled: dict[str, bool] = {}  # of devices that flambeau lacks: stored, without effect
_dtypes: dict[str, dtype] = {"cpu": types.bfloat16}


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast supports this type of device.

    >>> torch.amp.is_autocast_available("cpu")
    True
    """
    Device(device_type)
    return device_type == "cpu" or device_type in _OTHERS


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether this thread is in an autocast region for the device (default: 'cuda')."""
    if device_type == "cpu":
        return STATE.enabled
    return _enabled.get(device_type or "cuda", False)


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Turn autocast on or off for a type of device, in this thread."""
    if isinstance(device_type, bool) or enabled is None:
        device_type, enabled = "cuda", bool(device_type)
    if device_type != "cpu":
        _enabled[device_type] = enabled
    elif STATE.enabled != enabled:
        STATE.enabled = enabled
        AUTOCAST.count += 1 if enabled else -1


def get_autocast_dtype(device_type: str) -> dtype:
    """Return the dtype of autocast regions on the device."""
    if device_type == "cpu":
        return STATE.dtype
    return _dtypes.get(device_type, types.float16)


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Set the dtype of autocast regions on the device."""
    if device_type == "cpu":
        STATE.dtype = dtype
    else:
        _dtypes[device_type] = dtype


def is_autocast_cache_enabled() -> bool:
    """Return the stored cache setting; it has no effect, as flambeau always casts anew."""
    return STATE.cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Store the cache setting, which has no effect."""
    STATE.cache = enabled


def clear_autocast_cache() -> None:
    """Do nothing: there is no cache."""


def autocast_increment_nesting() -> int:
    """Increment the count of nested autocast regions; return it."""
    STATE.nesting += 1
    return STATE.nesting


def autocast_decrement_nesting() -> int:
    """Decrement the count of nested autocast regions; return it."""
    STATE.nesting -= 1
    return STATE.nesting


class autocast:
    """A region in which products and convolutions run in `dtype`, losses in float32.

    A context manager and a decorator. Parameters and their gradients keep their dtypes.

    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    """

    def __init__(
        self, device_type: str, dtype: dtype | None = None, enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(
                f"Expected `device_type` of type `str`, got: `{type(device_type)}`"
            )
        if not is_autocast_available(device_type):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = STATE.cache if cache_enabled is None else cache_enabled
        self._enabled = enabled and self._possible()
        self._previous: list[tuple[bool, Any, bool]] = []

    def _possible(self) -> bool:
        if self.device != "cpu":
            warn(
                f"User provided device_type of '{self.device}', but {self.device.upper()} is not "
                "available. Disabling",
                UserWarning,
            )
            return False
        if self.fast_dtype not in (types.bfloat16, types.float16):
            warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                UserWarning,
            )
            return False
        return True

    def __enter__(self) -> autocast:
        retained = is_autocast_enabled(self.device), get_autocast_dtype(self.device), STATE.cache
        self._previous.append(retained)
        set_autocast_enabled(self.device, self._enabled)
        set_autocast_dtype(self.device, self.fast_dtype)
        STATE.cache = self._cache_enabled
        autocast_increment_nesting()
        return self

    def __exit__(self, *exception: object) -> None:
        autocast_decrement_nesting()
        enabled, fast_dtype, STATE.cache = self._previous.pop()
        set_autocast_enabled(self.device, enabled)
        set_autocast_dtype(self.device, fast_dtype)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Use "
                "autocast as a context manager: `with torch.autocast(device_type=...):`"
            )

        @functools.wraps(func)
        def decorate_autocast(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return note_wrapper(decorate_autocast, self, func)


def _cast(value: Any, device_type: str, dtype: dtype) -> Any:
    """Return the value with its floating tensors, except float64, in another dtype.

    Iterables other than lists and tuples become generators, as in PyTorch.
    """
    if isinstance(value, Tensor):
        fits = value.is_floating_point() and value.dtype is not types.float64
        return value.to(dtype) if fits and value.device.type == device_type else value
    if isinstance(value, (str, bytes, np.ndarray)):
        return value
    if isinstance(value, collections.abc.Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype)
                for k, v in value.items()}
    if not isinstance(value, collections.abc.Iterable):
        return value
    items = (_cast(v, device_type, dtype) for v in value)
    return type(value)(items) if isinstance(value, (list, tuple)) else items


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: dtype | None = None
) -> Any:
    """Decorate `forward` of an autograd Function. With `cast_inputs`, inputs are cast to that dtype
    and autocast is off inside; without it, autocast stays as the caller set it.

    >>> class Doubled(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     Doubled.apply(torch.ones(2, dtype=torch.bfloat16)).dtype
    torch.float32
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        context._dtype = get_autocast_dtype(device_type)
        enabled = is_autocast_enabled(device_type)
        context._fwd_used_autocast = enabled and cast_inputs is None
        if not enabled or cast_inputs is None:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs),
                       **_cast(kwargs, device_type, cast_inputs))

    return decorate_fwd


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorate `backward` of an autograd Function to run with its forward's autocast state.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> x = torch.ones(2, requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        with autocast(device_type, enabled=context._fwd_used_autocast, dtype=context._dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd
