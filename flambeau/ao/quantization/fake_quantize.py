"""Fake quantization: modules that observe tensors and round them to the integers' grid."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ...nn.module import Module
from ...tensor import Tensor
from ...tensor.capture_marks import read_values
from ...tensor.dtypes import float32, int32, int64, qint8, quint4x2, quint8, uint8
from ...tensor.quantizers import (
    choose_even_parameters, choose_parameters, per_channel_affine, per_channel_affine_float_qparams,
    per_channel_symmetric, per_tensor_affine, per_tensor_symmetric,
)
from .histogram_observer import HistogramObserver
from .observer import (
    MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver, _PartialWrapper,
)

_BY_CHANNEL = (per_channel_affine, per_channel_affine_float_qparams, per_channel_symmetric)


class FakeQuantizeBase(Module):
    """Base class of fake quantizers: observing and rounding can be switched off."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", ops.tensor([1], dtype=uint8))
        self.register_buffer("observer_enabled", ops.tensor([1], dtype=uint8))

    @classmethod
    def with_args(cls, **kwargs: Any) -> _PartialWrapper:
        """A factory of fake quantizers with these arguments."""
        return _PartialWrapper(partial(cls, **kwargs))

    def calculate_qparams(self) -> Any:
        """The scale and the zero point."""
        raise NotImplementedError

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Round from now on."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        """Stop rounding."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Observe from now on."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self) -> None:
        """Keep the scale and the zero point."""
        self.enable_observer(False)


class FakeQuantize(FakeQuantizeBase):
    """Rounds to the numbers that quantized integers stand for; gradients pass within their range.

    >>> fake = torch.ao.quantization.FakeQuantize()
    >>> fake(torch.tensor([0., 0.26, 2.55]))
    tensor([0.0000, 0.2600, 2.5500])
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int | None = None,
        quant_max: int | None = None, is_dynamic: bool = False, **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min is not None and quant_max is not None:
            assert quant_min <= quant_max, "quant_min must be less than or equal to quant_max"
            keywords = getattr(getattr(observer, "p", None), "keywords", {})
            lowest, highest = keywords.get("dtype", observer_kwargs.get("dtype", quint8)).limits
            assert lowest <= quant_min, "quant_min out of bound"
            assert quant_max <= highest, "quant_max out of bound"
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        self.activation_post_process: Any = observer(is_dynamic=is_dynamic, **observer_kwargs)
        observer_module = self.activation_post_process
        self.quant_min, self.quant_max, self.is_dynamic = \
            observer_module.quant_min, observer_module.quant_max, observer_module.is_dynamic
        zero_point_dtype = float32 \
            if observer_module.qscheme is per_channel_affine_float_qparams else int32
        self.register_buffer("scale", ops.tensor([1.0]))
        self.register_buffer("zero_point", ops.tensor([0], dtype=zero_point_dtype))
        self.dtype, self.qscheme = observer_module.dtype, observer_module.qscheme
        self.ch_axis = getattr(observer_module, "ch_axis", -1)
        self.is_per_channel = self.qscheme in _BY_CHANNEL

    def calculate_qparams(self) -> Any:
        """The observer's scale and zero point."""
        return self.activation_post_process.calculate_qparams()

    def _get_scales(self) -> tuple[Tensor, Tensor]:
        """What is rounded with after an observation."""
        result: tuple[Tensor, Tensor] = self.calculate_qparams()
        return result

    def forward(self, X: Tensor) -> Tensor:
        """The rounded tensor."""
        if self.observer_enabled.item():
            self.activation_post_process(X.detach())
            scale, zero_point = self._get_scales()
            if self.scale.shape != scale.shape:
                self.scale, self.zero_point = scale.float(), zero_point.to(self.zero_point.dtype)
            else:
                self.scale.copy_(scale)
                self.zero_point.copy_(zero_point)
        if not self.fake_quant_enabled.item():
            return X
        watch = self.activation_post_process
        limits = watch.quant_min, watch.quant_max
        if self.is_per_channel:
            result: Tensor = ops.fake_quantize_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, *limits)
        else:
            result = ops.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, *limits)
        return result

    def extra_repr(self) -> str:
        """Switch and parameters."""
        watch = self.activation_post_process
        return (f"fake_quant_enabled={self.fake_quant_enabled}, "
                f"observer_enabled={self.observer_enabled}, quant_min={watch.quant_min}, "
                f"quant_max={watch.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, "
                f"ch_axis={self.ch_axis}, scale={self.scale}, zero_point={self.zero_point}")

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        for name in ("scale", "zero_point"):
            saved = state_dict.get(prefix + name)
            if saved is not None and saved.shape != getattr(self, name).shape:
                setattr(self, name, ops.zeros_like(saved))
        super()._load_from_state_dict(state_dict, prefix, *others)


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """FakeQuantize with moving averages; scales are those of PyTorch's fused operator."""

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int = 0,
        quant_max: int = 255, **observer_kwargs: Any,
    ) -> None:
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        assert isinstance(self.activation_post_process, (
            MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)), (
            "Fused observer+fake_quant module only works with MovingAverageMinMaxObserver")
        self.register_buffer("fake_quant_enabled", ops.tensor([1], dtype=int64))
        self.register_buffer("observer_enabled", ops.tensor([1], dtype=int64))
        self.is_symmetric_quant = self.qscheme in (per_tensor_symmetric, per_channel_symmetric)

    def _get_scales(self) -> tuple[Tensor, Tensor]:
        observer = self.activation_post_process
        quant_min, quant_max = observer.quant_min, observer.quant_max
        lows = np.atleast_1d(read_values(observer.min_val))
        highs = np.atleast_1d(read_values(observer.max_val))
        choose = choose_even_parameters if self.is_symmetric_quant else choose_parameters
        pairs = [choose(float(a), float(b), quant_min, quant_max)
                 for a, b in zip(lows, highs, strict=True)]
        return (ops.tensor([scale for scale, _ in pairs]),
                ops.tensor([zero for _, zero in pairs], dtype=int32))


default_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=quint8,
    qscheme=per_tensor_affine, reduce_range=True)
default_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8,
    qscheme=per_tensor_symmetric, reduce_range=False)
default_dynamic_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, is_dynamic=True,
    dtype=quint8, averaging_constant=1)
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8,
    qscheme=per_channel_symmetric, reduce_range=False, ch_axis=0)
default_embedding_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, qscheme=per_channel_affine_float_qparams,
    dtype=quint8, quant_min=0, quant_max=255, ch_axis=0, averaging_constant=1)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, qscheme=per_channel_affine_float_qparams,
    ch_axis=0, dtype=quint4x2, averaging_constant=1)
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=HistogramObserver, quant_min=0, quant_max=255, dtype=quint8,
    qscheme=per_tensor_affine, reduce_range=True)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=quint8)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8,
    qscheme=per_tensor_symmetric)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8,
    qscheme=per_channel_symmetric)


def disable_fake_quant(mod: Any) -> None:
    """For `model.apply`: stop rounding."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_fake_quant()


def enable_fake_quant(mod: Any) -> None:
    """For `model.apply`: rounds from now on."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_fake_quant()


def disable_observer(mod: Any) -> None:
    """For `model.apply`: keeps scales and zero points."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_observer()


def enable_observer(mod: Any) -> None:
    """For `model.apply`: observes from now on."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_observer()
