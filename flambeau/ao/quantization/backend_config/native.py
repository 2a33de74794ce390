"""The backends that PyTorch has on CPUs: all of them compute here as FBGEMM does."""

from __future__ import annotations

from typing import Any

from ....tensor.dtypes import float16, float32, qint8, quint4x2, quint8
from . import operator_patterns as patterns
from .backend_config import BackendConfig, DTypeConfig, DTypeWithConstraints

__all__ = [
    "get_fbgemm_backend_config", "get_native_backend_config", "get_native_backend_config_dict",
    "get_qnnpack_backend_config", "get_test_only_legacy_native_backend_config",
    "get_test_only_legacy_native_backend_config_dict", "get_x86_backend_config",
]

weighted_op_quint8_dtype_config = DTypeConfig(quint8, quint8, qint8, float32)
default_op_quint8_dtype_config = DTypeConfig(quint8, quint8)
default_op_fp16_dtype_config = DTypeConfig(float16, float16, float16, float16)
default_dynamic_int8_dtype_config = DTypeConfig(quint8, float32, qint8, float32, True)
default_dynamic_float16_dtype_config = DTypeConfig(float16, float32, float16, float32, True)
input_output_only_quint8_dtype_config = DTypeConfig(quint8, quint8, float32, float32)
weight_only_quint8_dtype_config = DTypeConfig(float32, float32, quint8)
weight_only_quint4x2_dtype_config = DTypeConfig(float32, float32, quint4x2)
_DYNAMIC = [default_dynamic_int8_dtype_config, default_dynamic_float16_dtype_config]
_signed = DTypeWithConstraints(qint8, scale_min_lower_bound=2**-12)
_signed_weights = DTypeWithConstraints(qint8, -127, 127, scale_min_lower_bound=2**-12)
# What QNNPACK has beside the others: signed activations with narrow weights.
_SYMMETRIC = DTypeConfig(_signed, _signed), DTypeConfig(_signed, _signed, _signed_weights, float32)


def _describe(
    name: str, symmetric: tuple[DTypeConfig, ...] = (), half: bool = False,
    has_shapes: bool = True, has_layer_norm: bool = False,
) -> BackendConfig:
    activation_configs = [*symmetric[:1], default_op_quint8_dtype_config]
    weighted = [*symmetric[1:], weighted_op_quint8_dtype_config]
    half_configs = [default_op_fp16_dtype_config] if half else []
    result = BackendConfig(name)
    for configs in (
        patterns.describe_convolutions(weighted),
        patterns.describe_linear([*weighted, *_DYNAMIC, *half_configs]),
        patterns.describe_binary([*activation_configs, *half_configs]),
        patterns.describe_cat(activation_configs),
        patterns.describe_default(activation_configs),
        patterns.describe_known_ranges([*activation_configs, *half_configs]),
        patterns.describe_sharing([*activation_configs, *half_configs]),
        patterns.describe_shapes(activation_configs) if has_shapes else [],
        patterns.describe_batch_norms(activation_configs),
        patterns.describe_layer_norm([input_output_only_quint8_dtype_config])
        if has_layer_norm else [],
        patterns.describe_recurrent(_DYNAMIC),
        patterns.describe_tables(
            [weight_only_quint8_dtype_config, weight_only_quint4x2_dtype_config]),
    ):
        result.set_backend_pattern_configs(configs)
    return result


def get_native_backend_config() -> BackendConfig:
    """Return the default backend's configuration.

    >>> from flambeau.ao.quantization.backend_config import get_native_backend_config
    >>> len(get_native_backend_config().configs) > 100
    True
    """
    return _describe("native", has_layer_norm=True)


def get_test_only_legacy_native_backend_config() -> BackendConfig:
    """The native backend with float16 activations."""
    return _describe("_native_and_fp16", half=True, has_layer_norm=True)


def get_fbgemm_backend_config() -> BackendConfig:
    """FBGEMM's patterns."""
    return _describe("fbgemm")


def get_x86_backend_config() -> BackendConfig:
    """Return the configuration for x86: FBGEMM's."""
    return _describe("x86")


def get_qnnpack_backend_config() -> BackendConfig:
    """QNNPACK's patterns, with signed activations."""
    return _describe("qnnpack", _SYMMETRIC, has_shapes=False)


def get_native_backend_config_dict() -> dict[str, Any]:
    """The native backend as a dictionary."""
    return get_native_backend_config().to_dict()


def get_test_only_legacy_native_backend_config_dict() -> dict[str, Any]:
    """The native backend with float16 activations as a dictionary."""
    return get_test_only_legacy_native_backend_config().to_dict()
