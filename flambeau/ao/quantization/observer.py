"""Observers: modules that record tensors' ranges and compute scales and zero points."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ... import ops
from ...native.foundation.user_frames import warn
from ...nn.module import Module
from ...tensor import Tensor
from ...tensor.dtypes import (
    QuantizedDtype, finfo, float16, float32, int8, qint8, quint4x2, quint8, uint8,
)
from ...tensor.quantizers import (
    per_channel_affine, per_channel_affine_float_qparams, per_channel_symmetric,
    per_tensor_affine, per_tensor_symmetric,
)

_EPSILON = finfo(float32).eps
_PER_TENSOR = (per_tensor_affine, per_tensor_symmetric)
_PER_CHANNEL = (per_channel_affine, per_channel_symmetric, per_channel_affine_float_qparams)


class _PartialWrapper:
    """A class with some arguments bound: the result of `with_args`, stored in QConfigs."""

    def __init__(self, p: Any, callable_args: dict[str, Callable] | None = None) -> None:
        self.p, self.callable_args = p, callable_args or {}

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        for name, function in self.callable_args.items():
            if name not in keywords:
                keywords[name] = function()
        return self.p(*args, **keywords)

    def __repr__(self) -> str:
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs: Any) -> _PartialWrapper:
        """Bind further arguments."""
        return _PartialWrapper(partial(self, **kwargs))

    def with_callable_args(self, **kwargs: Callable) -> _PartialWrapper:
        """Bind arguments that are computed by functions at each call."""
        return _PartialWrapper(self.p, {**self.callable_args, **kwargs})


class ObserverBase(Module):
    """Base class of observers: a dtype, and the factories `with_args`, `with_callable_args`."""

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    @classmethod
    def with_args(cls, **kwargs: Any) -> _PartialWrapper:
        """Return a factory of observers with these arguments."""
        return _PartialWrapper(partial(cls, **kwargs))

    @classmethod
    def with_callable_args(cls, **kwargs: Callable) -> _PartialWrapper:
        """Return a factory of observers with arguments that functions compute at each call."""
        return _PartialWrapper(partial(cls)).with_callable_args(**kwargs)

    def calculate_qparams(self) -> Any:
        """Return the scale and the zero point."""
        raise NotImplementedError


def _choose_integer_range(dtype: Any, reduce_range: bool, quant_min: Any,
                          quant_max: Any) -> tuple[int, int]:
    """Return the least and the greatest integer: the user's, or else the dtype's."""
    if quant_min is not None and quant_max is not None:
        assert quant_min <= 0 <= quant_max, "Used-specified quantization range must include 0."
        assert quant_min < quant_max, ("qmin must be strictly less than qmax for user-specified "
                                       "quantization range.")
        return (quant_min // 2, quant_max // 2) if reduce_range else (quant_min, quant_max)
    if dtype in (qint8, int8):
        return (-64, 63) if reduce_range else (-128, 127)
    if dtype in (quint8, uint8):
        return (0, 127) if reduce_range else (0, 255)
    if isinstance(dtype, QuantizedDtype):
        return dtype.limits
    raise AssertionError(f"Default Observer only works for integer data types, not {dtype}")


class UniformQuantizationObserverBase(ObserverBase):
    """Base class of observers for uniform quantization between `quant_min` and `quant_max`."""

    _version = 3
    eps: Tensor
    min_val: Tensor
    max_val: Tensor

    def __init__(
        self, dtype: Any = quint8, qscheme: Any = per_tensor_affine, reduce_range: bool = False,
        quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: Any = None,
        eps: float = _EPSILON, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.qscheme, self.reduce_range = qscheme, reduce_range
        if reduce_range:
            warn("Please use quant_min and quant_max to specify the range for observers. "
                 "                    reduce_range will be deprecated in a future release of "
                 "PyTorch.", UserWarning)
        self.register_buffer("eps", ops.tensor([eps]))
        assert qscheme in (*_PER_TENSOR, *_PER_CHANNEL), (
            "Default Observer only works for per_tensor_affine, per_tensor_symmetric, "
            "per_channel_affine, per_channel_symmetric and per_channel_float_qparams quantization "
            "scheme")
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        self.quant_min, self.quant_max = _choose_integer_range(
            dtype, reduce_range, quant_min, quant_max)

    def _check_range(self) -> None:
        """Raise NotImplementedError for quint8 with a reduced range and a symmetric scheme."""
        if self.qscheme in (per_tensor_symmetric, per_channel_symmetric) and self.reduce_range \
                and self.dtype is quint8:
            raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")

    def _has_range(self) -> bool:
        """Whether a tensor was observed; warns if none was."""
        unseen = self.min_val.numel() == 0 or self.max_val.numel() == 0
        if unseen or (self.min_val.dim() == 0 and self.min_val.item() == float("inf")
                      and self.max_val.item() == float("-inf")):
            warn("must run observer before calling calculate_qparams. Returning default values.",
                 UserWarning)
            return False
        assert not (self.min_val > self.max_val).any(), (
            f"min {self.min_val} should be less than max {self.max_val}")
        return True

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return the scale and the zero point, of shape (1,) or (channels,)."""
        if not self._has_range():
            return ops.tensor([1.0]), ops.tensor([0])
        lower = self.min_val.clamp(max=0).reshape(-1)
        upper = self.max_val.clamp(min=0).reshape(-1)
        steps = float(self.quant_max - self.quant_min)
        if self.qscheme in (per_tensor_symmetric, per_channel_symmetric):
            scale = ops.maximum(ops.maximum(-lower, upper) / (steps / 2), self.eps)
            return scale, ops.full(scale.shape, self._choose_symmetric_zero_point())
        if self.qscheme is per_channel_affine_float_qparams:
            scale = (self.max_val - self.min_val) / steps
            scale = ops.where(scale > self.eps, scale, ops.ones_like(scale))
            return scale, -1 * self.min_val / scale
        scale = ops.maximum((upper - lower) / steps, self.eps)
        zero = self.quant_min - ops.round(lower / scale).int()
        return scale, zero.clamp(self.quant_min, self.quant_max)

    def _choose_symmetric_zero_point(self) -> int:
        if self.dtype not in (quint8, uint8):
            return 0
        return (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 128

    def extra_repr(self) -> str:
        """Return the recorded range as text."""
        return f"min_val={self.min_val}, max_val={self.max_val}"


class MinMaxObserver(UniformQuantizationObserverBase):
    """Records the minimum and maximum of all tensors.

    >>> observer = torch.ao.quantization.MinMaxObserver()
    >>> _ = observer(torch.tensor([0., 2.55]))
    >>> observer.calculate_qparams()
    (tensor([0.0100]), tensor([0], dtype=torch.int32))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.qscheme not in _PER_TENSOR:
            raise NotImplementedError(f"{type(self).__name__}'s qscheme only support "
                                      "torch.per_tensor_symmetric and torch.per_tensor_affine.")
        self.register_buffer("min_val", ops.tensor(float("inf")))
        self.register_buffer("max_val", ops.tensor(float("-inf")))
        self._check_range()

    def forward(self, x_orig: Tensor) -> Tensor:
        """Record a tensor's range and return the tensor."""
        if x_orig.numel():
            lower, upper = self._combine(*ops.aminmax(x_orig.detach().to(self.min_val.dtype)))
            self.min_val.copy_(lower)
            self.max_val.copy_(upper)
        return x_orig

    def _combine(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Return the range to record, of the recorded one and a tensor's."""
        return ops.minimum(lower, self.min_val), ops.maximum(upper, self.max_val)

    def reset_min_max_vals(self) -> None:
        """Reset the recorded range."""
        self.min_val.fill_(float("inf"))
        self.max_val.fill_(float("-inf"))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Records moving averages of the tensors' minima and maxima."""

    def __init__(self, averaging_constant: float = 0.01, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("is_dynamic") and averaging_constant != 1:
            raise NotImplementedError(
                "MovingAverageMinMaxObserver doesn't support dynamic quantization for averaging "
                f"constant of {averaging_constant}")
        super().__init__(*args, **kwargs)
        self.averaging_constant = averaging_constant

    def _combine(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        if self.min_val.item() == float("inf") and self.max_val.item() == float("-inf"):
            return lower, upper
        return _move_average(self, lower, upper)


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """Records the minimum and maximum of each channel, along an axis.

    >>> observer = torch.ao.quantization.PerChannelMinMaxObserver(dtype=torch.qint8)
    >>> _ = observer(torch.tensor([[0., 2.55], [0., 25.5]]))
    >>> observer.calculate_qparams()[0]
    tensor([0.0100, 0.1000])
    """

    def __init__(
        self, ch_axis: int = 0, dtype: Any = quint8, qscheme: Any = per_channel_affine,
        *args: Any, **kwargs: Any,
    ) -> None:
        if qscheme not in _PER_CHANNEL:
            raise NotImplementedError(
                "PerChannelMinMaxObserver's qscheme only support torch.per_channel_symmetric, "
                "torch.per_channel_affine and torch.per_channel_affine_float_qparams.")
        if kwargs.get("is_dynamic"):
            raise NotImplementedError(
                "PerChannelMinMaxObserver doesn't support dynamic quantization")
        super().__init__(dtype, qscheme, *args, **kwargs)
        self.ch_axis = ch_axis
        self.register_buffer("min_val", ops.tensor([]))
        self.register_buffer("max_val", ops.tensor([]))
        self._check_range()

    def forward(self, x_orig: Tensor) -> Tensor:
        """Record a tensor's range and return the tensor."""
        if x_orig.numel():
            x = x_orig.detach().to(self.min_val.dtype)
            rows = x.transpose(0, self.ch_axis).flatten(1) if x.dim() > 1 else x[:, None]
            lower, upper = ops.aminmax(rows, dim=1)
            if self.min_val.numel():
                lower, upper = self._combine(lower, upper)
            # In place, because replicas of a model share the buffers.
            self.min_val.resize_(lower.shape).copy_(lower)
            self.max_val.resize_(upper.shape).copy_(upper)
        return x_orig

    def _combine(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Return the range to record, of the recorded one and a tensor's."""
        return ops.minimum(lower, self.min_val), ops.maximum(upper, self.max_val)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *lists: Any
    ) -> None:
        for name in ("min_val", "max_val"):
            saved = state_dict.get(prefix + name)
            if saved is not None:
                setattr(self, name, ops.empty_like(saved))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *lists)

    def reset_min_max_vals(self) -> None:
        """Reset the recorded range."""
        self.min_val, self.max_val = ops.tensor([]), ops.tensor([])


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Records moving averages of each channel's minima and maxima."""

    def __init__(self, averaging_constant: float = 0.01, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.averaging_constant = averaging_constant

    def _combine(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        return _move_average(self, lower, upper)


def _move_average(observer: Any, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Return the averages of an observer's range, moved toward a tensor's."""
    weight = observer.averaging_constant
    return (observer.min_val + weight * (lower - observer.min_val),
            observer.max_val + weight * (upper - observer.max_val))


class PlaceholderObserver(ObserverBase):
    """Records nothing. States a dtype for conversion, if the scale is determined later."""

    def __init__(
        self, dtype: Any = float32, custom_op_name: str = "", compute_dtype: Any = None,
        quant_min: int | None = None, quant_max: int | None = None, qscheme: Any = None,
        eps: float | None = None, is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype=dtype, is_dynamic=is_dynamic or compute_dtype is not None)
        self.qscheme = per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps = _EPSILON if eps is None else eps
        self.custom_op = custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        """Return the tensor."""
        return x

    def extra_repr(self) -> str:
        """Return the dtype and whether it is dynamic, as text."""
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"

    def calculate_qparams(self) -> Any:
        """Raise an error, as PyTorch does."""
        raise RuntimeError("calculate_qparams should not be called for PlaceholderObserver")


class NoopObserver(ObserverBase):
    """Records nothing and has no parameters."""

    def __init__(self, dtype: Any = float16, custom_op_name: str = "") -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.custom_op = custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        """Return the tensor."""
        return x

    def calculate_qparams(self) -> Any:
        """Raise an error, as PyTorch does."""
        raise RuntimeError("calculate_qparams should not be called for NoopObserver")


class RecordingObserver(ObserverBase):
    """Stores a copy of every tensor.

    >>> observer = torch.ao.quantization.RecordingObserver()
    >>> y = observer(torch.ones(2))
    >>> observer.get_tensor_value()
    [tensor([1., 1.])]
    """

    def __init__(self, dtype: Any = quint8) -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        """Store a copy of the tensor and return the tensor."""
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self) -> Any:
        """Raise an error, as PyTorch does."""
        raise Exception("calculate_qparams should not be called for RecordingObserver")

    def get_tensor_value(self) -> list[Tensor]:
        """Return the stored tensors."""
        return self.tensor_val


class ReuseInputObserver(ObserverBase):
    """Records nothing: results, such as a reshape's, have the scale of their inputs."""

    def __init__(self) -> None:
        super().__init__(quint8, is_dynamic=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the tensor."""
        return x

    def calculate_qparams(self) -> Any:
        """Raise an error, as PyTorch does."""
        raise RuntimeError("calculate_qparams should not be called for ReuseInputObserver")


def _is_activation_post_process(module: Any) -> bool:
    """Return whether a module is an observer or a fake quantizer."""
    return isinstance(module, ObserverBase) or hasattr(module, "fake_quant_enabled")


def get_observer_state_dict(mod: Any) -> Any:
    """Return the observers' part of a model's state dict."""
    state = mod.state_dict()
    result = type(state)((k, v) for k, v in state.items() if "activation_post_process" in k)
    result._metadata = state._metadata
    return result


def load_observer_state_dict(mod: Any, obs_dict: Any) -> None:
    """Load the state of a model's observers. Raises RuntimeError for missing keys."""
    missing = [name for name in get_observer_state_dict(mod) if name not in obs_dict]
    for name in missing:
        if "observer" in name or "activation_post_process" in name:
            raise RuntimeError(f"Missing keys for observer {name} in state_dict")
    mod.load_state_dict(obs_dict, strict=False)


default_debug_observer = RecordingObserver
default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_reuse_input_observer = ReuseInputObserver
default_placeholder_observer = PlaceholderObserver
default_weight_observer = MinMaxObserver.with_args(dtype=qint8, qscheme=per_tensor_symmetric)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    dtype=qint8, qscheme=per_tensor_symmetric, quant_min=-127, quant_max=127, eps=2**-12)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=qint8, qscheme=per_channel_symmetric)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=qint8, qscheme=per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=quint8, quant_min=0, quant_max=255, is_dynamic=True)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=quint8, qscheme=per_channel_affine_float_qparams, ch_axis=0)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=quint4x2, qscheme=per_channel_affine_float_qparams, ch_axis=0)
