"""QConfig: how a module's activations and weights are observed."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ...nn.module import Module
from ...tensor.dtypes import float16, float32, qint8, quint8
from ...tensor.quantizers import per_channel_symmetric, per_tensor_symmetric
from .fake_quantize import (
    FakeQuantize, FakeQuantizeBase, FusedMovingAvgObsFakeQuantize, default_dynamic_fake_quant,
    default_embedding_fake_quant, default_embedding_fake_quant_4bit, default_fake_quant,
    default_fused_act_fake_quant, default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant, default_per_channel_weight_fake_quant, default_weight_fake_quant,
)
from .histogram_observer import HistogramObserver
from .observer import (
    MinMaxObserver, MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver,
    NoopObserver, PerChannelMinMaxObserver, PlaceholderObserver, ReuseInputObserver,
    default_debug_observer, default_dynamic_quant_observer,
    default_float_qparams_observer, default_float_qparams_observer_4bit, default_observer,
    default_per_channel_weight_observer, default_placeholder_observer,
    default_reuse_input_observer, default_weight_observer, _PartialWrapper,
)


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """Factories of observers of activations and of weights.

    >>> from flambeau.ao.quantization import QConfig, MinMaxObserver
    >>> QConfig(activation=MinMaxObserver, weight=MinMaxObserver).weight().dtype
    torch.quint8
    """

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> Any:
        """ValueError for observers instead of factories."""
        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError(
                "QConfig received observer instance, please pass observer class instead. Use "
                "MyObserver.with_args(x=1) to override arguments to constructor if needed")
        return super().__new__(cls, activation, weight)


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """How PyTorch observes for a backend: histograms of activations, weights by channel.

    >>> torch.ao.quantization.get_default_qconfig("qnnpack").weight().qscheme
    torch.per_tensor_symmetric
    """
    backends = ["fbgemm", "x86", "qnnpack", "onednn"]
    if backend not in backends:
        raise AssertionError(f"backend: {backend} not supported. backend must be one of {backends}")
    if version != 0:
        raise AssertionError(f"Version number: {version} in get_default_qconfig is not supported. "
                             "Version number must be 0")
    weight = default_weight_observer if backend == "qnnpack" else \
        default_per_channel_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=backend in ("fbgemm", "x86")), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """Return PyTorch's QConfig of training for a backend. `version` 1 uses the fused operator.

    >>> torch.ao.quantization.get_default_qat_qconfig("qnnpack").weight().qscheme
    torch.per_tensor_symmetric
    """
    backends = ["fbgemm", "x86", "qnnpack", "onednn"]
    if backend not in backends:
        raise AssertionError(f"backend: {backend} not supported. backend must be one of {backends}")
    if version not in (0, 1):
        raise AssertionError(f"Version number: {version}in get_default_qat_qconfig is not "
                             "supported. Version number must be 0 or 1")
    fake_quantize = FusedMovingAvgObsFakeQuantize if version else FakeQuantize
    activation = fake_quantize.with_args(
        observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255,
        reduce_range=backend in ("fbgemm", "x86"))
    if backend == "qnnpack":
        weight = default_fused_wt_fake_quant if version else default_weight_fake_quant
    else:
        weight = default_fused_per_channel_wt_fake_quant if version \
            else default_per_channel_weight_fake_quant
    return QConfig(activation, weight)


default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)
default_qat_qconfig_v2 = QConfig(default_fused_act_fake_quant, default_fused_wt_fake_quant)
default_dynamic_qat_qconfig = QConfig(default_dynamic_fake_quant, default_weight_fake_quant)
default_qconfig = QConfig(default_observer, default_weight_observer)
default_debug_qconfig = QConfig(default_debug_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
per_channel_dynamic_qconfig = QConfig(
    default_dynamic_quant_observer, default_per_channel_weight_observer)
float16_dynamic_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=float16, is_dynamic=True),
    PlaceholderObserver.with_args(dtype=float16))
float16_static_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=float16), PlaceholderObserver.with_args(dtype=float16))
float_qparams_weight_only_qconfig = QConfig(
    default_placeholder_observer, default_float_qparams_observer)
float_qparams_weight_only_qconfig_4bit = QConfig(
    default_placeholder_observer, default_float_qparams_observer_4bit)
default_embedding_qat_qconfig = QConfig(NoopObserver.with_args(dtype=float32),
                                        default_embedding_fake_quant)
default_embedding_qat_qconfig_4bit = QConfig(NoopObserver.with_args(dtype=float32),
                                             default_embedding_fake_quant_4bit)
_narrow_weights = MinMaxObserver.with_args(
    dtype=qint8, qscheme=per_tensor_symmetric, quant_min=-127, quant_max=127, eps=2**-12)
_narrow_channels = PerChannelMinMaxObserver.with_args(
    dtype=qint8, qscheme=per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12)
_signed_activations = HistogramObserver.with_args(dtype=qint8, reduce_range=False, eps=2**-12)
default_symmetric_qnnpack_qconfig = QConfig(_signed_activations, _narrow_weights)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(_signed_activations, _narrow_channels)
default_weight_only_qconfig = QConfig(NoopObserver, default_weight_fake_quant)
default_activation_only_qconfig = QConfig(default_fake_quant, NoopObserver)
default_reuse_input_qconfig = QConfig(default_reuse_input_observer, NoopObserver)
default_quint8_weight_qconfig = QConfig(HistogramObserver, MinMaxObserver)
_narrow_range: dict[str, Any] = {
    "quant_min": -127, "quant_max": 127, "dtype": qint8, "eps": 2**-12}
_signed_fake_activations = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8,
    reduce_range=False, eps=2**-12)
default_symmetric_qnnpack_qat_qconfig = QConfig(
    _signed_fake_activations, FusedMovingAvgObsFakeQuantize.with_args(
        observer=MovingAverageMinMaxObserver, qscheme=per_tensor_symmetric, **_narrow_range))
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    _signed_fake_activations, FusedMovingAvgObsFakeQuantize.with_args(
        observer=MovingAveragePerChannelMinMaxObserver, qscheme=per_channel_symmetric,
        **_narrow_range))
_default_fp32_placeholder_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=float32), PlaceholderObserver.with_args(dtype=float32))
_default_quint8_placeholder_qconfig = QConfig(PlaceholderObserver.with_args(dtype=quint8), None)


def qconfig_equals(q1: Any, q2: Any) -> bool:
    """Whether two QConfigs make the same observers.

    >>> from flambeau.ao.quantization import qconfig
    >>> qconfig.qconfig_equals(qconfig.default_qconfig, qconfig.default_dynamic_qconfig)
    False
    """
    if q1 is None or q2 is None:
        return q1 is q2
    return all(map(_compare_factories, q1, q2))


def _compare_factories(first: Any, second: Any) -> bool:
    if not (isinstance(first, _PartialWrapper) and isinstance(second, _PartialWrapper)):
        return bool(first == second)
    first_keywords, second_keywords = dict(first.p.keywords), dict(second.p.keywords)
    observers = first_keywords.pop("observer", None), second_keywords.pop("observer", None)
    return (first.p.func == second.p.func and first.p.args == second.p.args
            and first_keywords == second_keywords
            and _compare_factories(*observers))


def _activation_is_memoryless(qconfig: Any) -> bool:
    """Whether the observer of activations only knows the last values that it saw."""
    activation = qconfig.activation()
    if isinstance(activation, FakeQuantizeBase):
        activation = getattr(activation, "activation_post_process", activation)
    return getattr(activation, "averaging_constant", None) == 1


def _is_reuse_input_qconfig(qconfig: Any) -> bool:
    return qconfig is not None and isinstance(qconfig.activation(), ReuseInputObserver) \
        and isinstance(qconfig.weight(), NoopObserver)
