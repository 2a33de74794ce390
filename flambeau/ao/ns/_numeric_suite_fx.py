"""Compare two forms of a model, such as a prepared and a quantized one: weights and activations.

`add_loggers` runs each model by itself, so that errors add up from layer to layer.
`add_shadow_loggers` runs layers of the one beside those of the other, on the same inputs.
`prepare_n_shadows_model` compares one model's layers under several QConfigs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...fx import GraphModule, Node
from ...nn.module import Module
from ...tensor import Tensor
from ..quantization.fake_quantize import FakeQuantizeBase
from ..quantization.fx.tracer import QuantizationTracer
from ..quantization.observer import ObserverBase
from .fx.graph_matcher import get_matching_subgraph_pairs
from .fx.logged_graph import add_loggers_to_model
from .fx.loggers import (
    OutputComparisonLogger, OutputLogger, extract_one_model, loggers_set_enabled,
    loggers_set_save_activations,
)
from .fx.mappings import OperatorSets
from .fx.n_shadows import (
    convert_n_shadows_model, prepare_add_loggers_model, prepare_n_shadows_model,
)
from .fx.n_shadows_results import (
    extract_results_n_shadows_model, extract_weight_comparison, print_comparisons_n_shadows_model,
)
from .fx.node_types import get_target_type_str
from .fx.ns_types import NSResultsType, NSSingleResultValuesType
from .fx.qconfig_multi_mapping import QConfigMultiMapping
from .fx.results import maybe_add_missing_fqns, rekey_logger_info_on_node_name_of_model
from .fx.shadow_graph import create_a_shadows_b
from .fx.weight_utils import WeightReaders, extract_weight_from_node

__all__ = [
    "NSTracer", "OutputComparisonLogger", "OutputLogger", "add_loggers", "add_shadow_loggers",
    "convert_n_shadows_model", "extend_logger_results_with_comparison", "extract_logger_info",
    "extract_results_n_shadows_model", "extract_shadow_logger_info", "extract_weights",
    "loggers_set_enabled", "loggers_set_save_activations", "prepare_n_shadows_model",
    "print_comparisons_n_shadows_model",
]

_prepare_n_shadows_add_loggers_model = prepare_add_loggers_model


class NSTracer(QuantizationTracer):
    """QuantizationTracer for which observers are one node each, too."""

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Whether calls of a module are one node."""
        return isinstance(m, ObserverBase | FakeQuantizeBase) \
            or super().is_leaf_module(m, module_qualified_name)


def _trace(model: Any) -> GraphModule:
    """Trace a model and remember in which modules a prepared model's nodes were traced."""
    traced = GraphModule(model, NSTracer([], []).trace(model))
    attributes = model.meta.get("_observed_graph_module_attrs") \
        if isinstance(model, GraphModule) else None
    if attributes is not None:
        traced._node_name_to_scope = attributes.node_name_to_scope
    return traced


def extract_weights(
    model_name_a: str, model_a: Module, model_name_b: str, model_b: Module,
    base_name_to_sets_of_related_ops: OperatorSets | None = None,
    unmatchable_types_map: OperatorSets | None = None,
    op_to_type_to_weight_extraction_fn: WeightReaders | None = None,
) -> NSResultsType:
    """Return the weights of corresponding layers of two models.

    Args:
        base_name_to_sets_of_related_ops: Sets of operators that are forms of the same one.
        unmatchable_types_map: Operators that are not compared.
        op_to_type_to_weight_extraction_fn: How weights are read, by operator.

    Returns:
        {name of b's node: {"weight": {name of model: [result]}}}.
    """
    return _extract_weights_impl(
        model_name_a, _trace(model_a), model_name_b, _trace(model_b),
        base_name_to_sets_of_related_ops, unmatchable_types_map,
        op_to_type_to_weight_extraction_fn)


def _extract_weights_impl(
    model_name_a: str, gm_a: GraphModule, model_name_b: str, gm_b: GraphModule,
    base_name_to_sets_of_related_ops: OperatorSets | None = None,
    unmatchable_types_map: OperatorSets | None = None,
    op_to_type_to_weight_extraction_fn: WeightReaders | None = None,
) -> NSResultsType:
    """`extract_weights` of traced models."""
    pairs = get_matching_subgraph_pairs(gm_a, gm_b, base_name_to_sets_of_related_ops,
                                        unmatchable_types_map)
    results: NSResultsType = {}
    for index, (model_name, gm) in enumerate(((model_name_a, gm_a), (model_name_b, gm_b))):
        for name, pair in pairs.items():
            weight = extract_weight_from_node(pair[index].base_op_node, gm,
                                              op_to_type_to_weight_extraction_fn)
            if weight is not None:
                by_type = results.setdefault(name, {NSSingleResultValuesType.WEIGHT.value: {}})
                by_type[NSSingleResultValuesType.WEIGHT.value][model_name] = [weight]
    maybe_add_missing_fqns(results)
    return rekey_logger_info_on_node_name_of_model(results, model_name_b)


def add_loggers(
    name_a: str, model_a: Module, name_b: str, model_b: Module, logger_cls: Callable[..., Any],
    should_log_inputs: bool = False,
    base_name_to_sets_of_related_ops: OperatorSets | None = None,
    unmatchable_types_map: OperatorSets | None = None,
) -> tuple[Module, Module]:
    """Return two models with loggers of corresponding layers; the models given change, too.

    Args:
        logger_cls: Class of loggers, such as OutputLogger.
        should_log_inputs: Log inputs of layers as well as outputs.
        base_name_to_sets_of_related_ops: Sets of operators that are forms of the same one.
        unmatchable_types_map: Operators that are not compared.
    """
    return _add_loggers_impl(name_a, _trace(model_a), name_b, _trace(model_b), logger_cls,
                             should_log_inputs, base_name_to_sets_of_related_ops,
                             unmatchable_types_map)


def _add_loggers_impl(
    name_a: str, gm_a: GraphModule, name_b: str, gm_b: GraphModule,
    logger_cls: Callable[..., Any], should_log_inputs: bool,
    base_name_to_sets_of_related_ops: OperatorSets | None = None,
    unmatchable_types_map: OperatorSets | None = None,
) -> tuple[Module, Module]:
    """`add_loggers` to traced models."""
    pairs = get_matching_subgraph_pairs(gm_a, gm_b, base_name_to_sets_of_related_ops,
                                        unmatchable_types_map)
    logged = []
    for index, (model_name, gm) in enumerate(((name_a, gm_a), (name_b, gm_b))):
        inputs: dict[Node, tuple[str, str]] = {}
        outputs: dict[Node, tuple[str, str]] = {}
        for name, pair in pairs.items():
            called = get_target_type_str(pair[index].base_op_node, gm)
            outputs[pair[index].end_node] = (name, called)
            if should_log_inputs:
                inputs[pair[index].start_node] = (name, called)
        logged.append(add_loggers_to_model(gm, inputs, outputs, logger_cls, model_name))
    return logged[0], logged[1]


def extract_logger_info(
    model_a: Module, model_b: Module, logger_cls: Callable[..., Any],
    model_name_to_use_for_layer_names: str,
) -> NSResultsType:
    """Return what the loggers of two models recorded.

    Args:
        logger_cls: Class of the loggers.
        model_name_to_use_for_layer_names: The model whose nodes name the layers.

    Returns:
        {name of node: {"node_output" or "node_input": {name of model: [result]}}}.
    """
    return _extract([model_a, model_b], logger_cls, model_name_to_use_for_layer_names)


def extract_shadow_logger_info(
    model_a_shadows_b: Module, logger_cls: Callable[..., Any],
    model_name_to_use_for_layer_names: str,
) -> NSResultsType:
    """Return what the loggers of an `add_shadow_loggers` model recorded.

    Arguments and result are as in `extract_logger_info`.
    """
    return _extract([model_a_shadows_b], logger_cls, model_name_to_use_for_layer_names)


def _extract(models: Sequence[Module], logger_cls: Any, model_name: str) -> NSResultsType:
    results: NSResultsType = {}
    for model in models:
        extract_one_model(model, results, logger_cls)
    maybe_add_missing_fqns(results)
    return rekey_logger_info_on_node_name_of_model(results, model_name)


def add_shadow_loggers(
    name_a: str, model_a: Module, name_b: str, model_b: Module, logger_cls: Callable[..., Any],
    should_log_inputs: bool = False,
    base_name_to_sets_of_related_ops: OperatorSets | None = None,
    node_type_to_io_type_map: OperatorSets | None = None,
    unmatchable_types_map: OperatorSets | None = None,
) -> Module:
    """Return model b with layers of model a beside its own, on the same inputs, and loggers.

    Args:
        logger_cls: Class of loggers, such as OutputLogger.
        should_log_inputs: Log inputs of layers as well as outputs.
        base_name_to_sets_of_related_ops: Sets of operators that are forms of the same one.
        node_type_to_io_type_map: Operators by the dtypes that they take.
        unmatchable_types_map: Operators that are not compared.
    """
    return _add_shadow_loggers_impl(
        name_a, _trace(model_a), name_b, _trace(model_b), logger_cls, should_log_inputs,
        base_name_to_sets_of_related_ops, node_type_to_io_type_map, unmatchable_types_map)


def _add_shadow_loggers_impl(
    name_a: str, gm_a: GraphModule, name_b: str, gm_b: GraphModule,
    logger_cls: Callable[..., Any], should_log_inputs: bool,
    base_name_to_sets_of_related_ops: OperatorSets | None = None,
    node_type_to_io_type_map: OperatorSets | None = None,
    unmatchable_types_map: OperatorSets | None = None,
) -> Module:
    """`add_shadow_loggers` to traced models."""
    pairs = get_matching_subgraph_pairs(gm_a, gm_b, base_name_to_sets_of_related_ops,
                                        unmatchable_types_map)
    return create_a_shadows_b(name_a, gm_a, name_b, gm_b, pairs, logger_cls, should_log_inputs,
                              node_type_to_io_type_map)


def extend_logger_results_with_comparison(
    results: NSResultsType, model_name_1: str, model_name_2: str,
    comparison_fn: Callable[[Tensor, Tensor], Tensor], comparison_name: str,
) -> None:
    """Add a measure of two models' values to the second model's results, under a name.

    AssertionError if one of the models has no results.
    """
    for by_type in results.values():
        for by_model in by_type.values():
            for model_name in (model_name_1, model_name_2):
                assert model_name in by_model, f"{model_name} not found in results"
            first = {(result["index_within_arg"], result["index_of_arg"]): result["values"]
                     for result in reversed(by_model[model_name_1])}
            for result in by_model[model_name_2]:
                place = result["index_within_arg"], result["index_of_arg"]
                assert place in first, "Expected result_1 to be not None"
                result[comparison_name] = [comparison_fn(a, b) for a, b in zip(
                    first[place], result["values"], strict=False)]


def _n_shadows_compare_weights(
    model: Module, example_inputs: Sequence[Any], qconfig_mapping: Any, backend_config: Any
) -> NSResultsType:
    """Return the weights of a model's calls of F.linear, in floats and rounded."""
    mappings = QConfigMultiMapping.from_list_qconfig_mapping([qconfig_mapping])
    prepared = prepare_n_shadows_model(model, example_inputs, mappings, backend_config)
    prepared(*example_inputs)
    return extract_weight_comparison(convert_n_shadows_model(prepared))
