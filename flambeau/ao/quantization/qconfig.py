"""QConfig: how a module's activations and weights are observed."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ...nn.module import Module
from ...tensor.dtypes import float16
from .observer import (
    PlaceholderObserver, default_dynamic_quant_observer, default_float_qparams_observer,
    default_observer, default_per_channel_weight_observer, default_placeholder_observer,
    default_weight_observer,
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


default_qconfig = QConfig(default_observer, default_weight_observer)
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
