"""Reference models of operators on plain integers, `torch.ops.quantized_decomposed`."""

from __future__ import annotations

import operator
from typing import Any

from ....fx import Node
from ....ops.registration.custom_operators import get_namespace
from ....tensor.dtypes import (
    finfo, float16, float32, int8, int32, qint8, qint32, quint8, uint8,
)
from ..utils import is_per_channel
from . import _decomposed  # noqa: F401  (declares the operators)
from .convert import Conversion

_INTEGERS = {quint8: uint8, qint8: int8, qint32: int32}


class DecomposedConversion(Conversion):
    """Rounds by operators whose results are plain tensors of integers."""

    def _round(self, node: Node, observer: Any, dtype: Any, is_dynamic: bool) -> Node:
        operators: Any = get_namespace("quantized_decomposed")
        x, call_function = node.args[0], self.graph.call_function
        if dtype is float16 and not is_dynamic:
            half = call_function(operators.convert_element_type.no_fuse, (x, float16))
            return call_function(operators.convert_element_type.no_fuse, (half, float32))
        integers, limits = _INTEGERS[dtype], (observer.quant_min, observer.quant_max)
        if is_dynamic:
            eps = getattr(observer, "eps", finfo(float32).eps)
            chosen = call_function(operators.choose_qparams.tensor, (x, *limits, eps, integers))
            scale, zero_point = (call_function(operator.getitem, (chosen, i)) for i in range(2))
            settings: tuple[Any, ...] = (scale, zero_point, *limits, integers)
            pair = operators.quantize_per_tensor.tensor, operators.dequantize_per_tensor.tensor
        elif is_per_channel(observer.qscheme):
            path, (scale, zero_point) = self._find_path(node), observer.calculate_qparams()
            settings = (self._store(f"{path}_scale_", scale),
                        self._store(f"{path}_zero_point_", zero_point), int(observer.ch_axis),
                        *limits, integers)
            pair = operators.quantize_per_channel.default, operators.dequantize_per_channel.default
        else:
            scale, zero_point = observer.calculate_qparams()
            settings = (float(scale), int(zero_point), *limits, integers)
            pair = operators.quantize_per_tensor.default, operators.dequantize_per_tensor.default
        return call_function(pair[1], (call_function(pair[0], (x, *settings)), *settings))
