"""torch.ao.quantization.fx._equalize: PyTorch's name for equalization, and its choice of layers."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from .... import ops
from ....nn.module import Module
from ....tensor import Tensor
from ...ns import _numeric_suite_fx as suite
from ...ns.fx.error_measures import compute_sqnr
from ...ns.fx.mappings import get_unmatchable_types_map
from .equalization import EqualizationQConfig as EqualizationQConfig
from .equalization import _convert_equalization_ref as _convert_equalization_ref
from .equalization import _InputEqualizationObserver as _InputEqualizationObserver
from .equalization import _WeightEqualizationObserver as _WeightEqualizationObserver
from .equalization import calculate_equalization_scale as calculate_equalization_scale
from .equalization import default_equalization_qconfig as default_equalization_qconfig
from .equalization import input_equalization_observer as input_equalization_observer
from .equalization import node_supports_equalization as node_supports_equalization
from .equalization import reshape_scale as reshape_scale
from .equalization import weight_equalization_observer as weight_equalization_observer


def get_layer_sqnr_dict(model_a: Module, model_b: Module, x: Tensor) -> dict[str, float]:
    """Return the signal-to-noise ratio, in decibels, of a quantized model's layers, by path.

    Args:
        model_a: The float model.
        model_b: The quantized model.
        x: The input of both.
    """
    unmatchable = get_unmatchable_types_map()
    unmatchable["funs_unmatchable"].add(ops.mul)  # equalized models multiply inputs
    logged = suite.add_loggers("fp32", model_a, "int8", model_b, suite.OutputLogger,
                               unmatchable_types_map=unmatchable)
    for model in logged:
        model(x)
    results = suite.extract_logger_info(*logged, suite.OutputLogger, "int8")
    suite.extend_logger_results_with_comparison(results, "fp32", "int8", compute_sqnr, "sqnr")
    layers = [layer["node_output"]["int8"][0] for layer in results.values()]
    return {layer["fqn"]: layer["sqnr"][0] for layer in layers}


def get_equalization_qconfig_dict(
    layer_sqnr_dict: dict[str, float], num_layers_to_equalize: int
) -> dict[str, Any]:
    """Return a configuration that equalizes the layers with the lowest ratios.

    Args:
        layer_sqnr_dict: The result of `get_layer_sqnr_dict`.
        num_layers_to_equalize: How many layers.
    """
    worst = sorted(layer_sqnr_dict.items(), key=itemgetter(1))[:num_layers_to_equalize]
    return {"module_name": [(path, default_equalization_qconfig) for path, _ in worst]}
