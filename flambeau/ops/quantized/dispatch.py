"""Dispatch of operators on quantized tensors to their implementations.

Methods and Python operators of a quantized tensor resolve on its class. Public functions get stubs
that check their arguments when the first quantized tensor is created.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from ...tensor.quantized import QuantizedCreated, QuantizedTensor
from ...tensor.windows.opaque_window import describe_missing_implementation
from ..core.errors import MISSING, Overriding
from ..core.operator import Operator
from ..interception import window_stubs
from ..interception.torch_function import _disabled_torch_function_impl

# Implementations for calls with a quantized argument, by public name.
QUANTIZED: dict[str, Callable] = {}
_methods: Any = QuantizedTensor
_methods.__torch_function__ = _disabled_torch_function_impl
_NO_METHODS = frozenset(
    "cat concat stack pad max_pool1d max_pool2d max_pool3d avg_pool2d avg_pool3d "
    "adaptive_avg_pool2d adaptive_avg_pool3d hardsigmoid gelu threshold grid_sample".split())


def implements(*names: str) -> Callable[[Callable], Callable]:
    """Register a function of tensors under public names; methods of those names call it."""

    def decorate(function: Callable) -> Callable:
        for name in names:
            QUANTIZED[name] = function
            if name not in _NO_METHODS:
                setattr(QuantizedTensor, name, function)
        return function

    return decorate


implements_each = functools.partial(window_stubs.implement_each, implements)


def is_quantized_call(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Test whether the arguments, or lists among them, contain a quantized tensor."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, QuantizedTensor):
            return True
        if value.__class__ in (list, tuple) and any(isinstance(v, QuantizedTensor) for v in value):
            return True
    return False


def _answer(operator: Operator, args: tuple) -> Any:
    if not is_quantized_call(args, {}):
        return MISSING
    name = operator.name.lstrip("_")
    function = QUANTIZED.get(name)
    if function is None:
        raise NotImplementedError(describe_missing_implementation(name, "QuantizedCPU"))
    return function(*args)


def _install_stubs() -> None:
    """Have public functions check their arguments for quantized tensors."""
    for home in ("views", "writes", "operators"):
        importlib.import_module(f"{__package__}.{home}")
    Overriding.answers.insert(0, _answer)
    kind = window_stubs.TensorKind("quantized", is_quantized_call)
    window_stubs.install(kind, QUANTIZED, lambda function, name: not name.startswith("__"))


QuantizedCreated.first = _install_stubs
