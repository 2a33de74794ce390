"""The operator patterns that PyTorch's CPU backends quantize, by family."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterable
from typing import Any

from .... import ops
from ....nn import functional as F
from ....nn import modules
from ....tensor.dtypes import quint8
from ...nn import intrinsic, qat
from ...nn.intrinsic import qat as fused_qat
from ...nn.quantized import reference
from ..fuse_modules import fuse_sequence
from .backend_config import (
    BackendPatternConfig, DTypeConfig, DTypeWithConstraints, ObservationType,
)

_SHARES = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
_DIFFERS = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
_Configs = list[BackendPatternConfig]
_DTypes = list[DTypeConfig]


def _describe_plain(pattern: Any, dtypes: _DTypes, **values: Any) -> BackendPatternConfig:
    config = BackendPatternConfig(pattern).set_dtype_configs(dtypes)
    for name, value in values.items():
        config._set(name, value)
    return config


def _describe_weighted(function: Any, dtypes: _DTypes, weight: int = 1) -> BackendPatternConfig:
    """A function that takes a weight and a bias."""
    return _describe_plain(function, dtypes,
                           _input_type_to_index={"weight": weight, "bias": weight + 1})


def _describe_fusion(pattern: Any, fused: Any, dtypes: _DTypes) -> BackendPatternConfig:
    return _describe_plain(pattern, dtypes, fuser_method=_fuse, fused_module=fused)


def _fuse(is_qat: bool, *parts: Any) -> Any:
    return fuse_sequence(list(parts), is_qat)


def _describe_with_root(
    pattern: Any, root: Any, twin: Any, dtypes: _DTypes, qat_module: Any = None
) -> BackendPatternConfig:
    return _describe_plain(pattern, dtypes, root_module=root, reference_quantized_module=twin,
                           qat_module=qat_module)


def describe_linear(dtypes: _DTypes) -> _Configs:
    """Linear layers, optionally followed by ReLU or batch normalization."""
    root, twin = modules.Linear, reference.Linear
    pairs = ((root, qat.Linear), (intrinsic.LinearReLU, fused_qat.LinearReLU),
             (intrinsic.LinearBn1d, fused_qat.LinearBn1d))
    return [
        *(_describe_with_root(module_class, root, twin, dtypes, trained)
          for module_class, trained in pairs),
        *(_describe_with_root(trained, root, twin, dtypes) for _, trained in pairs),
        _describe_weighted(F.linear, dtypes),
        *(_describe_fusion((root, relu), intrinsic.LinearReLU, dtypes)
          for relu in (modules.ReLU, F.relu)),
        *(_describe_plain((F.linear, relu), dtypes) for relu in (modules.ReLU, F.relu)),
        _describe_fusion((root, modules.BatchNorm1d), intrinsic.LinearBn1d, dtypes),
    ]


def describe_convolutions(dtypes: _DTypes) -> _Configs:
    """Convolutions of all ranks, with optional batch norm and ReLU, and transposed ones."""
    return [config for rank in (1, 2, 3) for config in _describe_rank(rank, dtypes)]


def _describe_rank(rank: int, dtypes: _DTypes) -> Iterable[BackendPatternConfig]:
    def pick(home: Any, name: str) -> Any:
        return getattr(home, f"{name}{rank}d")

    root, norm, twin = pick(modules, "Conv"), pick(modules, "BatchNorm"), pick(reference, "Conv")
    function, relus = pick(F, "conv"), (modules.ReLU, F.relu)
    pairs = ((root, pick(qat, "Conv")), *((pick(intrinsic, name), pick(fused_qat, name))
                                          for name in ("ConvReLU", "ConvBn", "ConvBnReLU")))
    for module_class, trained in pairs[:2]:
        yield _describe_with_root(module_class, root, twin, dtypes, trained)
    for module_class, trained in pairs[2:]:
        yield _describe_plain(module_class, dtypes, qat_module=trained)
    for _, trained in pairs:
        yield _describe_with_root(trained, root, twin, dtypes)
    yield _describe_weighted(function, dtypes)
    for relu in relus:
        yield _describe_fusion((root, relu), pick(intrinsic, "ConvReLU"), dtypes)
        yield _describe_plain((function, relu), dtypes)
        yield _describe_fusion((root, norm, relu), pick(intrinsic, "ConvBnReLU"), dtypes)
    yield _describe_fusion((root, norm), pick(intrinsic, "ConvBn"), dtypes)
    transposed, its_twin = pick(modules, "ConvTranspose"), pick(reference, "ConvTranspose")
    yield _describe_with_root(transposed, transposed, its_twin, dtypes)
    yield _describe_plain((transposed, norm), dtypes, fuser_method=_fuse, root_module=transposed,
                          reference_quantized_module=its_twin)
    yield _describe_weighted(pick(F, "conv_transpose"), dtypes)


def describe_binary(dtypes: _DTypes) -> _Configs:
    """Sums and products, of tensors or of a tensor and a number, and matmul."""
    by_tensors = {0: _DIFFERS, 1: _SHARES, 2: _DIFFERS}
    result = []
    for function in (operator.add, ops.add, operator.mul, ops.mul):
        patterns = [(function, relu) for relu in (modules.ReLU, F.relu, ops.relu)]
        result += [_describe_plain(pattern, dtypes, _num_tensor_args_to_observation_type=by_tensors)
                   for pattern in (*patterns, function)]
    return [*result, _describe_plain(ops.matmul, dtypes)]


def describe_cat(dtypes: _DTypes) -> _Configs:
    """Concatenation."""
    return [_describe_plain(ops.cat, dtypes, observation_type=_SHARES)]


def describe_default(dtypes: _DTypes) -> _Configs:
    """Activations and norms whose results need an output scale."""
    operators = (
        modules.ELU, modules.LeakyReLU, modules.Hardswish, modules.InstanceNorm1d,
        modules.InstanceNorm2d, modules.InstanceNorm3d, modules.Dropout, modules.PReLU,
        F.elu, F.hardswish, F.leaky_relu, F.dropout)
    return [*(_describe_plain(target, dtypes) for target in operators),
            _describe_weighted(F.group_norm, dtypes, 2),
            _describe_weighted(F.instance_norm, dtypes, 3)]


def describe_layer_norm(dtypes: _DTypes) -> _Configs:
    """Layer normalization, whose weights stay in floating point."""
    return [_describe_plain(modules.LayerNorm, dtypes), _describe_weighted(F.layer_norm, dtypes, 2)]


def describe_known_ranges(dtypes: _DTypes) -> _Configs:
    """Activations whose results lie in a known range, which fixes their scale."""
    zero_to_one = DTypeWithConstraints(
        quint8, 0, 255, scale_exact_match=1 / 256, zero_point_exact_match=0)
    around_zero = DTypeWithConstraints(
        quint8, 0, 255, scale_exact_match=2 / 256, zero_point_exact_match=128)
    ranges: dict[Any, DTypeWithConstraints] = {
        **dict.fromkeys((modules.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_",
                         modules.Sigmoid, ops.sigmoid, "sigmoid", "sigmoid_", modules.Softmax),
                        zero_to_one),
        **dict.fromkeys((modules.Tanh, ops.tanh, "tanh", "tanh_"), around_zero)}
    return [_describe_plain(target, _constrain(dtypes, bounds))
            for target, bounds in ranges.items()]


def _constrain(dtypes: _DTypes, bounds: DTypeWithConstraints) -> _DTypes:
    """Return copies of the dtypes in which activations must have a known scale."""
    result = copy.deepcopy(dtypes)
    for config in result:
        for constraints in (config.input_dtype_with_constraints,
                            config.output_dtype_with_constraints):
            if constraints.dtype != bounds.dtype:
                continue
            for name in ("scale_min_lower_bound", "scale_max_upper_bound"):
                if getattr(constraints, name) is not None:
                    raise ValueError(f"{name} is invalid for fixed qparams ops: {config}")
            constraints.__dict__.update(
                quant_min_lower_bound=bounds.quant_min_lower_bound,
                quant_max_upper_bound=bounds.quant_max_upper_bound,
                scale_exact_match=bounds.scale_exact_match,
                zero_point_exact_match=bounds.zero_point_exact_match)
    return result


SHARING_MODULES = tuple(getattr(modules, name) for name in (
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AvgPool1d", "AvgPool2d",
    "AvgPool3d", "Hardtanh", "Identity", "MaxPool1d", "MaxPool2d", "MaxPool3d", "PixelShuffle",
    "PixelUnshuffle", "ReLU", "ReLU6"))
SHARING_FUNCTIONS = (
    ops.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.hardtanh,
    F.hardtanh_, F.interpolate, F.max_pool1d, F.max_pool2d, F.max_pool3d, F.pixel_shuffle,
    F.pixel_unshuffle, F.relu, F.relu6, F.avg_pool1d, F.avg_pool2d, F.avg_pool3d, ops.clamp,
    ops.flatten, ops.mean, ops.narrow, ops.repeat_interleave, ops.transpose, ops.squeeze,
    ops.stack, ops.unsqueeze, operator.floordiv)
SHARING_METHODS = (
    "contiguous", "clamp", "detach", "detach_", "mean", "permute", "repeat", "repeat_interleave",
    "reshape", "resize_", "relu", "relu_", "squeeze", "squeeze_", "transpose", "unsqueeze",
    "unsqueeze_", "view")


def describe_sharing(dtypes: _DTypes) -> _Configs:
    """Operators on the integers whose results keep the input's scale."""
    targets = (*SHARING_MODULES, *SHARING_FUNCTIONS, *SHARING_METHODS)
    return [_describe_plain(target, dtypes, observation_type=_SHARES) for target in targets]


def describe_shapes(dtypes: _DTypes) -> _Configs:
    """Operators that read a tensor's shape."""
    unobserved = ObservationType.INPUT_OUTPUT_NOT_OBSERVED
    return [_describe_plain(method, dtypes, observation_type=unobserved)
            for method in ("shape", "size")]


def describe_batch_norms(dtypes: _DTypes) -> _Configs:
    """Batch normalization that follows no convolution, with or without ReLU after it."""
    result = []
    for norm, fused in ((modules.BatchNorm2d, intrinsic.BNReLU2d),
                        (modules.BatchNorm3d, intrinsic.BNReLU3d)):
        result += [_describe_fusion((norm, relu), fused, dtypes) for relu in (modules.ReLU, F.relu)]
        result += [_describe_plain(norm, dtypes), _describe_plain(fused, dtypes)]
    return result


def describe_recurrent(dtypes: _DTypes) -> _Configs:
    """Recurrent layers and cells."""
    names = ("GRUCell", "LSTMCell", "RNNCell", "LSTM", "GRU")
    return [_describe_with_root(getattr(modules, name), getattr(modules, name),
                                getattr(reference, name), dtypes) for name in names]


def describe_tables(dtypes: _DTypes) -> _Configs:
    """Embeddings."""
    result = []
    for name in ("Embedding", "EmbeddingBag"):
        root, trained, twin = (getattr(home, name) for home in (modules, qat, reference))
        result += [_describe_with_root(root, root, twin, dtypes, trained),
                   _describe_with_root(trained, root, twin, dtypes)]
    return result
