"""A linear layer on quantized tensors, and the packed weights shared with the dynamic one."""

from __future__ import annotations

from typing import Any

from ..... import ops
from .....nn import modules as float_modules
from .....nn.module import Module
from .....ops.quantized import packed_linear
from .....tensor import Tensor
from .....tensor.dtypes import float16, qint8
from .observed import find_inner_module, quantize_parts
from .scaled_output import ScaledOutput
from .weights import format_module


class LinearPackedParams(Module):
    """Packed weights as a child of a module: `dtype` is qint8 or float16."""

    _version = 3

    def __init__(self, dtype: Any = qint8) -> None:
        super().__init__()
        self.dtype = dtype
        if dtype is qint8:
            weight = ops._empty_affine_quantized([1, 1], scale=1.0, zero_point=0, dtype=qint8)
        elif dtype is float16:
            weight = ops.zeros([1, 1])
        else:
            raise RuntimeError("Unsupported dtype on dynamic quantized linear!")
        self.set_weight_bias(weight, None)

    def set_weight_bias(self, weight: Tensor, bias: Tensor | None) -> None:
        """Pack other weights."""
        if self.dtype is qint8:
            self._packed_params: Any = packed_linear.linear_prepack(weight, bias)
        else:
            self._packed_params = packed_linear.linear_prepack_fp16(weight, bias)

    def _weight_bias(self) -> tuple[Tensor, Tensor | None]:
        result: tuple[Tensor, Tensor | None] = self._packed_params.unpack()
        return result

    def forward(self, x: Tensor) -> Tensor:
        """Return the input unchanged."""
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *lists: Any
    ) -> None:
        version = local_metadata.get("version", None)
        self.dtype = qint8
        if version is not None and version >= 2:
            self.dtype = state_dict.pop(prefix + "dtype")
        if version is None or version < 3:
            weight, bias = state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias")
        else:
            weight, bias = state_dict.pop(prefix + "_packed_params")
        self.set_weight_bias(weight, bias)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *lists)

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class Linear(ScaledOutput):
    """A linear layer on quint8 tensors, with qint8 weights and an output `scale` and `zero_point`.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 2), 0.1, 0, torch.quint8)
    >>> torch.ao.nn.quantized.Linear(2, 1)(x).dtype
    torch.quint8
    """

    _version = 3
    _FLOAT_MODULE: Any = (
        float_modules.Linear, float_modules.linear.NonDynamicallyQuantizableLinear)

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = qint8
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bias = ops.zeros(out_features) if bias_ else None
        if dtype is qint8:
            weight = ops._empty_affine_quantized(
                [out_features, in_features], scale=1, zero_point=0, dtype=qint8)
        elif dtype is float16:
            weight = ops.zeros([out_features, in_features])
        else:
            raise RuntimeError("Unsupported dtype specified for quantized Linear!")
        self._packed_params = LinearPackedParams(dtype)
        self._packed_params.set_weight_bias(weight, bias)
        self.scale, self.zero_point = 1.0, 0

    def _get_name(self) -> str:
        return "QuantizedLinear"

    def extra_repr(self) -> str:
        """Return sizes and parameters."""
        scheme: Any = self.weight()
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"scale={self.scale}, zero_point={self.zero_point}, qscheme={scheme.qscheme()}")

    def __repr__(self) -> str:
        return format_module(self, (LinearPackedParams,))

    def forward(self, x: Any) -> Tensor:
        """Return the quint8 result for a quint8 tensor."""
        return packed_linear.linear(x, self._packed_params._packed_params, self.scale,
                                    self.zero_point)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *lists: Any
    ) -> None:
        version = local_metadata.get("version", None)
        if version is None or version == 1:
            for name in ("weight", "bias"):
                state_dict[f"{prefix}_packed_params.{name}"] = state_dict.pop(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *lists)

    def _weight_bias(self) -> tuple[Tensor, Tensor | None]:
        return self._packed_params._weight_bias()

    def weight(self) -> Tensor:
        """Return the weights (out, in)."""
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        """Return the bias (out), or None."""
        return self._weight_bias()[1]

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Pack other weights."""
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Convert an observed float layer."""
        supported = ", ".join(float_class.__name__ for float_class in cls._FLOAT_MODULE)
        assert type(mod) in cls._FLOAT_MODULE or hasattr(mod, "weight_fake_quant"), (
            f"nnq.{cls.__name__}.from_float only works for {supported}, but got: {type(mod)}")
        inner, weight, bias, scale, zero_point = quantize_parts(mod)
        return cls._pack(mod, inner, weight, bias, scale, zero_point)

    @classmethod
    def from_reference(cls, ref_qlinear: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """Convert a reference layer, or one fused with an activation."""
        inner = find_inner_module(ref_qlinear)
        return cls._pack(ref_qlinear, inner, inner.get_quantized_weight(), inner.bias,
                         float(output_scale), int(output_zero_point))

    @classmethod
    def _pack(
        cls, mod: Any, inner: Any, weight: Tensor, bias: Any, scale: float, zero_point: int
    ) -> Any:
        result = cls(inner.in_features, inner.out_features, *cls._collect_settings(mod))
        result.set_weight_bias(weight, bias)
        result.scale, result.zero_point = scale, zero_point
        return result

    @classmethod
    def _collect_settings(cls, mod: Any) -> tuple[Any, ...]:
        """Return the constructor arguments besides sizes, from the converted module."""
        return ()
