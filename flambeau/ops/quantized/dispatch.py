"""Dispatch of operators on quantized tensors: which implementation a call goes to.

Methods and Python's operators find theirs on the tensor's class. Functions wear stubs from the
first quantized tensor on; until then nothing looks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ...tensor.windows.opaque_window import missing_implementation
from ...tensor.quantized import QuantizedCreated, QuantizedTensor
from ...tensor.tensor import Tensor
from ..core.errors import Overriding
from ..core.operator import PUBLIC, Operator
from ..interception.torch_function import _disabled_torch_function_impl
from ..interception import window_stubs

# By public name: what a call does where an argument is quantized.
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


def is_quantized_call(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Test whether the arguments, or lists among them, contain a quantized tensor."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, QuantizedTensor):
            return True
        if value.__class__ in (list, tuple) and any(isinstance(v, QuantizedTensor) for v in value):
            return True
    return False


_next_in_line = Overriding.ask


def _ask(operator: Operator, args: tuple) -> Any:
    if not is_quantized_call(args, {}):
        return _next_in_line(operator, args)
    name = operator.name.lstrip("_")
    function = QUANTIZED.get(name)
    if function is None:
        raise NotImplementedError(missing_implementation(name, "QuantizedCPU"))
    return function(*args)


def _wear_stubs() -> None:
    """Has public functions look for quantized tensors."""
    global _next_in_line
    for home in ("views", "writes", "operators"):
        importlib.import_module(f"{__package__}.{home}")
    _next_in_line, Overriding.ask = Overriding.ask, _ask
    kind, seen = window_stubs.Kind("quantized", is_quantized_call), set()
    for name, handler in QUANTIZED.items():
        for space in (PUBLIC["torch"], PUBLIC["nn.functional"], vars(Tensor)):
            function = space.get(name)
            if not isinstance(function, FunctionType) or id(function) in seen:
                continue
            seen.add(id(function))
            wear = not name.startswith("__")
            window_stubs.register(function, kind, handler, wear)
    window_stubs.wear_registered()


QuantizedCreated.first = _wear_stubs
