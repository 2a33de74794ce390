"""Observers and fake quantizers with a fixed scale and zero point."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...tensor import Tensor
from ...tensor.dtypes import float32, int32, quint8
from ...tensor.quantizers import per_tensor_affine, per_tensor_symmetric
from .fake_quantize import FakeQuantize
from .observer import ObserverBase


class FixedQParamsObserver(ObserverBase):
    """An observer that ignores its input and returns a given scale and zero point.

    >>> torch.ao.quantization.FixedQParamsObserver(0.5, 0).calculate_qparams()
    (tensor([0.5000]), tensor([0], dtype=torch.int32))
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, scale: float, zero_point: int, dtype: Any = quint8, qscheme: Any = per_tensor_affine,
        quant_min: int = 0, quant_max: int = 255, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, qscheme
        self.register_buffer("scale", ops.tensor([scale], dtype=float32))
        self.register_buffer("zero_point", ops.tensor([zero_point], dtype=int32))

    def forward(self, X: Tensor) -> Tensor:
        """Return the tensor unchanged."""
        return X

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return the given scale and zero point."""
        return self.scale, self.zero_point


class FixedQParamsFakeQuantize(FakeQuantize):
    """FakeQuantize with a fixed scale and zero point.

    >>> fake = torch.ao.quantization.default_fixed_qparams_range_0to1_fake_quant()
    >>> fake(torch.tensor([0.25, 0.2501, 3.]))
    tensor([0.2500, 0.2500, 0.9961])
    """

    def __init__(self, observer: Any) -> None:
        super().__init__(observer=observer)
        watch = self.activation_post_process
        if type(watch) is not FixedQParamsObserver:
            raise AssertionError("FixedQParamsFakeQuantize's observer must be a "
                                 "FixedQParamsObserver")
        if self.qscheme not in (per_tensor_affine, per_tensor_symmetric):
            raise AssertionError("Only per tensor quantization is supported "
                                 f"FixedQParamsFakeQuantize module, got qscheme:{self.qscheme}")
        self._observer_ctr = observer
        self.scale, self.zero_point = watch.scale, watch.zero_point

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return the given scale and zero point."""
        return self.scale, self.zero_point

    def extra_repr(self) -> str:
        """Return switches and parameters."""
        watch = self.activation_post_process
        return (f"fake_quant_enabled={self.fake_quant_enabled}, "
                f"observer_enabled={self.observer_enabled}, scale={self.scale}, "
                f"zero_point={self.zero_point}, dtype={self.dtype}, quant_min={watch.quant_min}, "
                f"quant_max={watch.quant_max}, qscheme={self.qscheme}")


default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=quint8, quant_min=0, quant_max=255)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=quint8, quant_min=0, quant_max=255)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
