"""Check whether a backend supports a pattern in the dtypes and ranges that a QConfig requests."""

from __future__ import annotations

from typing import Any

from ....fx import Node
from ....native.foundation.user_frames import warn
from ....tensor.dtypes import float16, float32
from ..backend_config import DTypeConfig, DTypeWithConstraints
from ..fixed_parameters import FixedQParamsFakeQuantize, FixedQParamsObserver
from ..qconfig import float16_dynamic_qconfig, float16_static_qconfig, qconfig_equals
from ..utils import get_qconfig_dtypes

_SUGGESTION = (
    "Please use torch.ao.quantization.get_default_qconfig_mapping or "
    "torch.ao.quantization.get_default_qat_qconfig_mapping. Example:\n"
    '    qconfig_mapping = get_default_qconfig_mapping("fbgemm")\n'
    "    model = prepare_fx(model, qconfig_mapping, example_inputs)")


def is_argument(node: Node, arg: Any, name: str, index: int | None) -> bool:
    """Whether a value is the node's argument of this name or position."""
    at_index = index is not None and index < len(node.args) and node.args[index] is arg
    return at_index or node.kwargs.get(name) is arg


def read_dtype_and_mode(observer: Any) -> tuple[Any, bool]:
    """Return an observer's dtype, and whether it is dynamic."""
    if observer is None:
        return None, False
    return observer.dtype, bool(getattr(observer, "is_dynamic", False))


def is_supported(
    config: DTypeConfig, root: Node, arguments: Any, result: Any, qconfig: Any
) -> bool:
    """Whether inputs, weight, bias and result have a config's dtypes."""
    return all(_accepts_argument(config, root, arg, expected, qconfig)
               for arg, expected in arguments) and _accepts_result(config, result, qconfig)


def _accepts_argument(
    config: DTypeConfig, root: Node, arg: Any, expected: Any, qconfig: Any
) -> bool:
    if isinstance(arg, (list, tuple)):
        return all(_accepts_argument(config, root, element, expected, qconfig) for element in arg)
    if not isinstance(arg, Node):
        return True
    if is_argument(root, arg, "weight", expected.weight_index):
        dtype, _ = read_dtype_and_mode(expected.weight and expected.weight())
        return config.weight_dtype is None or (dtype is config.weight_dtype and satisfies(
            qconfig, config.weight_dtype_with_constraints, "weight"))
    if is_argument(root, arg, "bias", expected.bias_index):
        dtype, _ = read_dtype_and_mode(expected.bias and expected.bias())
        return config.bias_dtype is None or dtype is config.bias_dtype
    dtype, is_dynamic = read_dtype_and_mode(expected.input and expected.input())
    return config.input_dtype is None or (
        dtype is config.input_dtype and bool(config.is_dynamic) == is_dynamic
        and satisfies(qconfig, config.input_dtype_with_constraints, "activation"))


def _accepts_result(config: DTypeConfig, expected: Any, qconfig: Any) -> bool:
    dtype, is_dynamic = read_dtype_and_mode(expected.output and expected.output())
    if is_dynamic:  # only the input is rounded
        dtype = float32
    return config.output_dtype is None or (dtype is config.output_dtype and satisfies(
        qconfig, config.output_dtype_with_constraints, "activation"))


def satisfies(qconfig: Any, bounds: DTypeWithConstraints, name: str) -> bool:
    """Whether a QConfig's observer of activations or weights meets a backend's constraints.

    Warns about a violated constraint.
    """
    factory = None if qconfig is None or bounds.dtype is None else getattr(qconfig, name)
    outer = None if factory is None else factory()
    if outer is None or outer.dtype != bounds.dtype:
        return True
    observer = getattr(outer, "activation_post_process", outer)
    problem = _describe_range_problem(observer, bounds, name, qconfig) \
        or _scale_problem(observer, bounds, name, qconfig) \
        or _describe_fixed_problem(outer, observer, bounds, qconfig)
    if problem:
        warn(problem, UserWarning)
    return not problem


def _describe_range_problem(observer: Any, bounds: DTypeWithConstraints, name: str,
                            qconfig: Any) -> str:
    lower, upper = bounds.quant_min_lower_bound, bounds.quant_max_upper_bound
    if lower is None or upper is None:
        return ""
    quant_min, quant_max = getattr(observer, "quant_min", None), getattr(observer, "quant_max",
                                                                         None)
    if quant_min is None or quant_max is None:
        return f"QConfig {name} must specify 'quant_min' and 'quant_max', ignoring {qconfig}"
    if quant_min >= lower and quant_max <= upper:
        return ""
    return (f"QConfig {name} quantization range must fall within the backend's:\n"
            f"QConfig range = ({quant_min}, {quant_max}), BackendConfig range = "
            f"({lower}, {upper}), ignoring {qconfig}")


def _scale_problem(observer: Any, bounds: DTypeWithConstraints, name: str, qconfig: Any) -> str:
    min_scale, scale = bounds.scale_min_lower_bound, getattr(observer, "eps", None)
    if min_scale is None:
        return ""
    if scale is None:
        return f"QConfig {name} must specify 'eps', ignoring {qconfig}"
    if scale >= min_scale:
        return ""
    return (f"QConfig {name} eps ({scale}) must be greater than or equal to the backend's min "
            f"scale value ({min_scale}), ignoring {qconfig}")


def _describe_fixed_problem(
    outer: Any, observer: Any, bounds: DTypeWithConstraints, qconfig: Any
) -> str:
    scale, zero_point = bounds.scale_exact_match, bounds.zero_point_exact_match
    if scale is None or zero_point is None or any(
            qconfig_equals(qconfig, half)
            for half in (float16_static_qconfig, float16_dynamic_qconfig)):
        return ""
    if not isinstance(outer, (FixedQParamsObserver, FixedQParamsFakeQuantize)):
        return ("QConfig must specify a FixedQParamsObserver or a FixedQParamsFakeQuantize for "
                f"fixed qparams ops, ignoring {qconfig}.\n{_SUGGESTION}")
    if observer.scale == scale and observer.zero_point == zero_point:
        return ""
    return (f"QConfig fixed scale ({observer.scale}) and zero point ({observer.zero_point}) do "
            f"not match the backend's ({scale} and {zero_point}), ignoring {qconfig}.\n"
            f"{_SUGGESTION}")


def has_supported_dtypes(qconfig: Any, configs: list[DTypeConfig]) -> bool:
    """Whether a module's QConfig matches the dtypes of any config."""
    activation, weight, is_dynamic = get_qconfig_dtypes(qconfig)
    for config in configs:
        config_dtypes = [dtype or float32 for dtype in (
            config.input_dtype, config.output_dtype, config.weight_dtype, config.bias_dtype)]
        if config.is_dynamic:
            matches = is_dynamic and config_dtypes[:3] == [activation, float32, weight]
        else:
            half = activation is float16 and weight is float16
            matches = config_dtypes == [activation, activation, weight,
                                        float16 if half else float32]
        if matches:
            return True
    return False
