"""Base of reference modules: float modules whose weights are rounded as quantized modules do.

A model of reference modules emulates the quantized model in float32.
"""

from __future__ import annotations

from typing import Any

from ...... import ops
from ......nn.module import Module
from ......nn.parameter import Parameter
from ......ops.registration.custom_operators import get_namespace
from ......tensor import Tensor
from ......tensor.dtypes import QuantizedDtype, float32, int8, int32, qint8, qint32, quint8, uint8
from ......tensor.quantizers import (
    per_channel_affine, per_channel_affine_float_qparams, per_tensor_affine,
)

_DEFAULT: dict[str, Any] = {
    "qscheme": per_tensor_affine, "dtype": quint8, "scale": 1.0, "zero_point": 0}
_SCHEMES = (None, per_tensor_affine, per_channel_affine, per_channel_affine_float_qparams)
_INTEGERS: dict[Any, Any] = {qint8: int8, quint8: uint8, qint32: int32}


class WeightRounding:
    """Quantizer of one weight, from a dictionary of scheme, dtype, scale, zero point and axis.

    With `is_decomposed` it calls the quantized_decomposed operators, on plain integers.
    """

    def __init__(self, module: Module, name: str, parameters: dict[str, Any] | None) -> None:
        values = _DEFAULT if parameters is None else parameters
        self.scheme, self.dtype = values["qscheme"], values["dtype"]
        if self.scheme not in _SCHEMES:
            raise AssertionError(f"qscheme: {self.scheme} is not supported in reference quantized "
                                 f"{module._get_name()}")
        self.name, self.axis = name, int(values.get("axis", 0))
        self.decomposed = bool(values.get("is_decomposed", False))
        self.range = values.get("quant_min"), values.get("quant_max")
        is_integer = isinstance(self.dtype, QuantizedDtype)
        _store(module, f"{name}_scale", values["scale"] if is_integer else 1.0, float32)
        _store(module, f"{name}_zero_point", values["zero_point"] if is_integer else 0, int32)
        _store(module, f"{name}_axis", self.axis, int32)

    def quantize(self, module: Any) -> Tensor:
        """Return the quantized weight; plain integers if decomposed. Raises ValueError for a
        dtype without plain integers."""
        weight = getattr(module, self.name)
        scale = getattr(module, f"{self.name}_scale")
        zero_point = getattr(module, f"{self.name}_zero_point")
        if self.decomposed:
            return self._call_decomposed(
                "quantize_per_tensor", "quantize_per_channel", weight, scale, zero_point)
        if self.scheme is per_tensor_affine:
            result: Tensor = ops.quantize_per_tensor(weight, scale, zero_point, self.dtype)
        else:
            result = ops.quantize_per_channel(weight, scale, zero_point, self.axis, self.dtype)
        return result

    def round(self, module: Any) -> Tensor:
        """Return the weight quantized and dequantized; the weight itself without a scheme."""
        weight: Any = getattr(module, self.name)
        if self.scheme is None:
            return weight
        codes: Any = self.quantize(module)
        if not self.decomposed:
            return codes.dequantize()
        scale = getattr(module, f"{self.name}_scale")
        return self._call_decomposed("dequantize_per_tensor", "dequantize_per_channel", codes,
                                     scale, getattr(module, f"{self.name}_zero_point"))

    def _call_decomposed(
        self, per_tensor: str, per_channel: str, x: Any, scale: Any, zero_point: Any
    ) -> Tensor:
        """Call one of two quantized_decomposed operators, by the scheme."""
        from .....quantization.fx import _decomposed  # noqa: F401  (declares the operators)

        if self.dtype not in _INTEGERS:
            raise ValueError(f"Unsupported dtype and qscheme: {self.dtype}, {self.scheme}")
        name, axis = (per_tensor, ()) if self.scheme is per_tensor_affine \
            else (per_channel, (self.axis,))
        operator = getattr(get_namespace("quantized_decomposed"), name)
        quant_min, quant_max = self.range
        if quant_min is None or quant_max is None:
            quant_min, quant_max = self.dtype.limits
        result: Tensor = operator(
            x, scale, zero_point, *axis, quant_min, quant_max, _INTEGERS[self.dtype])
        return result


def _store(module: Module, name: str, value: Any, dtype: Any) -> None:
    buffer = value.detach().clone() if isinstance(value, Tensor) else ops.tensor(value, dtype=dtype)
    module.register_buffer(name, buffer)


class ReferenceQuantizedModule(Module):
    """Base class of modules that compute with their rounded `weight`."""

    _IS_REFERENCE = True
    _rounding: WeightRounding

    def _init_weight_qparams(self, weight_qparams: dict[str, Any] | None, device: Any) -> None:
        self._rounding = WeightRounding(self, "weight", weight_qparams)
        self.is_decomposed = self._rounding.decomposed
        self.weight_axis_int = self._rounding.axis
        self.weight_quant_min, self.weight_quant_max = self._rounding.range

    @property
    def weight_qscheme(self) -> Any:
        """The weight's quantization scheme."""
        return self._rounding.scheme

    @property
    def weight_dtype(self) -> Any:
        """The weight's quantized dtype."""
        return self._rounding.dtype

    def get_weight(self) -> Tensor:
        """Return the weight, quantized and dequantized."""
        return self._rounding.round(self)

    def get_quantized_weight(self) -> Tensor:
        """Return the quantized weight."""
        return self._rounding.quantize(self)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}(Reference)"

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight_qscheme"] = self.weight_qscheme
        destination[prefix + "weight_dtype"] = self.weight_dtype

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *lists: Any
    ) -> None:
        rounding = self._rounding
        rounding.scheme = state_dict.pop(f"{prefix}weight_qscheme", rounding.scheme)
        rounding.dtype = state_dict.pop(f"{prefix}weight_dtype", rounding.dtype)
        for name in ("weight_scale", "weight_zero_point", "weight_axis"):
            if prefix + name in state_dict:  # shapes differ by tensor and by channel
                setattr(self, name, state_dict[prefix + name])
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *lists)


def adopt(result: Any, mod: Any) -> Any:
    """Give `result` the float module's parameters, detached, and return it."""
    for name, parameter in mod.named_parameters(recurse=False):
        setattr(result, name, Parameter(parameter.detach()))
    return result
