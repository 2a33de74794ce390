"""The backend of torch.ops.quantized: its operators run on quantized tensors alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...tensor.quantized import QuantizedTensor
from ...tensor.windows.opaque_window import describe_missing_implementation

__all__ = ["PackedParams", "refuse_plain", "require_quantized"]


class PackedParams:
    """Base class of packed weights: attributes of modules, which traces read as constants."""


def refuse_plain(name: str, *args: Any, library: str = "quantized") -> None:
    """Raise PyTorch's NotImplementedError unless a quantized tensor is among the arguments, or in a
    list among them."""
    for value in args:
        if any(isinstance(v, QuantizedTensor)
               for v in (value if isinstance(value, (list, tuple)) else (value,))):
            return
    raise NotImplementedError(describe_missing_implementation(name, "CPU", library))


def require_quantized(function: Callable) -> Callable:
    """Decorate an operator of torch.ops.quantized: it refuses calls with plain tensors alone, as
    those of a model without a QuantStub."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        refuse_plain(function.__name__, *args, *kwargs.values())
        return function(*args, **kwargs)

    return checked
