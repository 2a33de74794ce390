"""oneDNN's patterns: a convolution with what is added to it, linear layers with an activation."""

from __future__ import annotations

import itertools
import operator
from typing import Any

from .... import ops
from ....nn import functional as F
from ....nn import modules
from ....nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from ....tensor.dtypes import float32, qint8
from ...nn import intrinsic
from ...nn.quantized import reference
from ..utils import MatchAllNode
from . import operator_patterns as patterns
from .backend_config import BackendConfig, BackendPatternConfig, DTypeConfig
from .native import (
    default_dynamic_int8_dtype_config, default_op_quint8_dtype_config,
    input_output_only_quint8_dtype_config, weighted_op_quint8_dtype_config,
)

__all__ = ["get_onednn_backend_config"]


def get_onednn_backend_config() -> BackendConfig:
    """oneDNN's patterns.

    >>> from flambeau.ao.quantization.backend_config import get_onednn_backend_config
    >>> get_onednn_backend_config().name
    'onednn'
    """
    weighted, activations = [weighted_op_quint8_dtype_config], [default_op_quint8_dtype_config]
    linear = [*weighted, default_dynamic_int8_dtype_config]
    result = BackendConfig("onednn")
    for configs in (
        patterns.describe_convolutions(weighted), _describe_residuals(weighted),
        patterns.describe_linear(linear), _describe_activated(linear),
        patterns.describe_binary(activations), patterns.describe_cat(activations),
        patterns.describe_default(activations), patterns.describe_known_ranges(activations),
        patterns.describe_sharing(activations), patterns.describe_batch_norms(activations),
        patterns.describe_layer_norm([input_output_only_quint8_dtype_config]),
        patterns.describe_recurrent([default_dynamic_int8_dtype_config]),
        patterns.describe_tables([DTypeConfig(float32, float32, qint8)]),
    ):
        result.set_backend_pattern_configs(configs)
    return result


def _describe_residuals(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    """Sums of a convolution and any value, on either side, with normalization and with ReLU."""
    result = [
        _describe_residual(add, *flags).set_dtype_configs(dtypes)
        for add in (ops.add, operator.add)
        for flags in itertools.product((True, False), repeat=3)]
    for fused in (intrinsic.ConvAdd2d, intrinsic.ConvAddReLU2d):
        result.append(BackendPatternConfig(fused).set_dtype_configs(dtypes).set_root_module(
            modules.Conv2d).set_reference_quantized_module(reference.Conv2d))
    return result


def _describe_residual(
    add: Any, has_norm: bool, has_relu: bool, is_left: bool
) -> BackendPatternConfig:
    conv = (modules.BatchNorm2d, modules.Conv2d) if has_norm else modules.Conv2d
    total = (add, conv, MatchAllNode) if is_left else (add, MatchAllNode, conv)

    def split(matched: Any) -> tuple[Any, Any]:
        """The convolution, with its normalization, and the other value."""
        _, first, second = matched[1] if has_relu else matched
        return (first, second) if is_left else (second, first)

    def fuse(is_qat: bool, *parts: Any) -> Any:
        branch, _ = split(parts)
        if has_norm and is_qat:
            raise NotImplementedError(f"Cannot fuse train modules: {parts}")
        inner = fuse_conv_bn_eval(branch[1], branch[0]) if has_norm else branch
        if has_relu:
            return intrinsic.ConvAddReLU2d(inner, parts[1][0], parts[0])
        return intrinsic.ConvAdd2d(inner, parts[0])

    def root_of(bound: Any) -> Any:
        branch, _ = split(bound)
        return branch[1] if has_norm else branch

    config = BackendPatternConfig()
    config._set_pattern_complex_format((modules.ReLU, total) if has_relu else total)
    config._set_root_node_getter(root_of)
    config._set_extra_inputs_getter(lambda bound: [split(bound)[1]])
    return config.set_fuser_method(fuse).set_fused_module(
        intrinsic.ConvAddReLU2d if has_relu else intrinsic.ConvAdd2d)


def _describe_activated(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    """Return patterns of linear layers followed by a leaky ReLU or tanh."""
    result = []
    for fused, module, function in (
        (intrinsic.LinearLeakyReLU, modules.LeakyReLU, F.leaky_relu),
        (intrinsic.LinearTanh, modules.Tanh, ops.tanh),
    ):
        for activation in (module, function):
            result.append(BackendPatternConfig((modules.Linear, activation)).set_fuser_method(
                lambda is_qat, linear, act, fused=fused: fused(linear, act)
            ).set_fused_module(fused))
            result.append(BackendPatternConfig((F.linear, activation)))
        result.append(BackendPatternConfig(fused).set_root_module(modules.Linear)
                      .set_reference_quantized_module(reference.Linear))
    normalized = (modules.Linear, modules.BatchNorm1d, modules.LeakyReLU)
    result.append(BackendPatternConfig(normalized).set_fuser_method(_fuse_normalized)
                  .set_fused_module(intrinsic.LinearLeakyReLU))
    for config in result:
        config.set_dtype_configs(dtypes)
    return result


def _fuse_normalized(is_qat: bool, linear: Any, bn: Any, leaky_relu: Any) -> Any:
    if not linear.training == bn.training == leaky_relu.training:
        raise AssertionError(
            "Linear, BN and LeakyReLU all must be in the same mode (train or eval).")
    if is_qat:
        raise NotImplementedError(f"Cannot fuse train modules: {(linear, bn, leaky_relu)}")
    return intrinsic.LinearLeakyReLU(fuse_linear_bn_eval(linear, bn), leaky_relu)
