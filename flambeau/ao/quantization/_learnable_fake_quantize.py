"""Fake quantization with scale and zero point as parameters: observed first, then learned."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...nn.parameter import Parameter
from ...tensor import Tensor
from ...tensor.dtypes import float32, finfo, iinfo, int64, uint8
from ...tensor.quantizers import per_channel_affine, per_channel_symmetric, per_tensor_symmetric
from .fake_quantize import FakeQuantizeBase


class _LearnableFakeQuantize(FakeQuantizeBase):
    """Rounds to a quantization grid, whose scale and zero point `enable_param_learning` trains.

    `channel_len`: the number of scales, -1 for one. `use_grad_scaling`: scale their gradients by
    1 / sqrt(elements * quant_max), after https://openreview.net/pdf?id=rkgO66VKDS.
    """

    static_enabled: Tensor
    learning_enabled: Tensor
    eps: Tensor

    def __init__(
        self, observer: Any, quant_min: int = 0, quant_max: int = 255, scale: float = 1.0,
        zero_point: float = 0.0, channel_len: int = -1, use_grad_scaling: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min >= quant_max:
            raise AssertionError("quant_min must be strictly less than quant_max.")
        if channel_len != -1 and not (isinstance(channel_len, int) and channel_len > 0):
            raise AssertionError("Channel size must be a positive integer.")
        self.quant_min, self.quant_max = quant_min, quant_max
        self.use_grad_scaling = use_grad_scaling
        count = max(channel_len, 1)
        self.scale = Parameter(ops.tensor([scale] * count))
        self.zero_point = Parameter(ops.tensor([zero_point] * count))
        watch = self.activation_post_process = observer(
            quant_min=quant_min, quant_max=quant_max, **observer_kwargs)
        limits = iinfo(watch.dtype)
        if limits.min > quant_min:
            raise AssertionError("quant_min out of bound")
        if quant_max > limits.max:
            raise AssertionError("quant_max out of bound")
        self.dtype, self.qscheme = watch.dtype, watch.qscheme
        self.ch_axis = getattr(watch, "ch_axis", -1)
        self.register_buffer("static_enabled", ops.tensor([1], dtype=uint8))
        self.register_buffer("learning_enabled", ops.tensor([0], dtype=uint8))
        self.bitwidth = (quant_max - quant_min + 1).bit_length() - 1
        self.register_buffer("eps", ops.tensor([finfo(float32).eps]))

    def _switch(self, learning: bool, rounding: bool, observing: bool) -> _LearnableFakeQuantize:
        self.toggle_qparam_learning(learning)
        return self.toggle_fake_quant(rounding).toggle_observer_update(observing)

    def enable_param_learning(self) -> _LearnableFakeQuantize:
        """Round, and learn the scale and the zero point."""
        return self._switch(learning=True, rounding=True, observing=False)

    def enable_static_estimate(self) -> None:
        """Round, with the scale and the zero point of the observer."""
        self._switch(learning=False, rounding=True, observing=True)

    def enable_static_observation(self) -> None:
        """Observe without rounding."""
        self._switch(learning=False, rounding=False, observing=True)

    def toggle_observer_update(self, enabled: bool = True) -> _LearnableFakeQuantize:
        """Turn observation on or off."""
        self.static_enabled[0] = int(enabled)
        return self

    def enable_observer(self, enabled: bool = True) -> None:
        """Turn observation on or off."""
        self.toggle_observer_update(enabled)

    def toggle_qparam_learning(self, enabled: bool = True) -> _LearnableFakeQuantize:
        """Turn learning of the scale and the zero point on or off."""
        self.learning_enabled[0] = int(enabled)
        self.scale.requires_grad = self.zero_point.requires_grad = enabled
        return self

    def toggle_fake_quant(self, enabled: bool = True) -> _LearnableFakeQuantize:
        """Turn rounding on or off."""
        self.fake_quant_enabled[0] = int(enabled)
        return self

    def observe_quant_params(self) -> None:
        """Print the scale and the zero point."""
        print(f"_LearnableFakeQuantize Scale: {self.scale.detach()}")
        print(f"_LearnableFakeQuantize Zero Point: {self.zero_point.detach()}")

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return the scale, and the zero point rounded to an integer."""
        self.scale.data.clamp_(min=self.eps.item())
        zero = self.zero_point.detach().round().clamp(self.quant_min, self.quant_max)
        return self.scale.detach(), zero.to(int64)

    def forward(self, X: Tensor) -> Tensor:
        """Return the tensor, rounded if rounding is on; observe it if observation is on."""
        if self.static_enabled.item():
            self.activation_post_process(X.detach())
            scale, zero_point = self.activation_post_process.calculate_qparams()
            self.scale.data.copy_(scale)
            self.zero_point.data.copy_(zero_point)
        else:
            self.scale.data.clamp_(min=self.eps.item())
        if not self.fake_quant_enabled.item():
            return X
        if self.qscheme in (per_channel_symmetric, per_tensor_symmetric):
            self.zero_point.data.zero_()
        factor = (X.numel() * self.quant_max) ** -0.5 if self.use_grad_scaling else 1.0
        range_and_factor = self.quant_min, self.quant_max, factor
        if self.qscheme in (per_channel_symmetric, per_channel_affine):
            result: Tensor = ops._fake_quantize_learnable_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, *range_and_factor)
        else:
            result = ops._fake_quantize_learnable_per_tensor_affine(
                X, self.scale, self.zero_point, *range_and_factor)
        return result
