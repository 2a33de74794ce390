"""What the loggers of layers in several forms recorded, by layer, and as a table."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from .... import ops
from ....fx import GraphModule
from ....nn import functional as F
from ...quantization.utils import getattr_from_fqn
from .error_measures import compute_sqnr
from .loggers import OutputLogger, extract_one_model
from .n_shadows import SHADOW_WRAPPER_NODE_NAME_PREFIX
from .node_types import get_target_type_str
from .ns_types import NSResultsType, NSSingleResultValuesType

__all__ = ["create_results_comparison", "extract_results_n_shadows_model",
           "extract_weight_comparison", "group_results_by_subgraph",
           "print_comparisons_n_shadows_model", "print_n_shadows_summary"]

WEIGHT = NSSingleResultValuesType.WEIGHT.value


def extract_results_n_shadows_model(model: Any) -> NSResultsType:
    """Return what the loggers recorded: {"model": {"node_output": {"subgraph_i_j": [result]}}}."""
    results: NSResultsType = {}
    extract_one_model(model, results, OutputLogger)
    return results


def _find_quantization(wrapper: Any) -> tuple[Any, tuple[Any, ...]] | None:
    """Return the function by which a converted layer rounds its weight, and its arguments.

    None if the layer takes no weight as its second input.
    """
    inputs = [node for node in wrapper.graph.nodes if node.op == "placeholder"]
    if len(inputs) < 2:
        return None
    assert len(inputs[1].users) == 1, f"Expected exactly 1, got {len(inputs[1].users)}"
    quantize, = inputs[1].users
    assert quantize.target in (ops.quantize_per_channel, ops.quantize_per_tensor), (
        f"Expected torch.quantize_per_tensor, but got {quantize.target}")
    scale, zero_point, *rest = quantize.args[1:]
    return quantize.target, (*(getattr_from_fqn(wrapper, node.target)
                               for node in (scale, zero_point)), *rest)


def extract_weight_comparison(m: GraphModule) -> NSResultsType:
    """Return the weights of calls of F.linear, in floats and as their converted form rounds them.

    The result has the form of `extract_results_n_shadows_model`, with "weight".
    """
    scopes: Any = getattr(m, "_node_name_to_scope", None)
    weights: dict[str, Any] = {}
    for node in m.graph.nodes:
        if node.op != "call_function" or node.target is not F.linear:
            continue
        wrappers = [user for user in node.args[0].users if user.op == "call_module"
                    and str(user.target).startswith(SHADOW_WRAPPER_NODE_NAME_PREFIX)]
        quantization = _find_quantization(getattr_from_fqn(m, str(wrappers[0].target))) \
            if wrappers else None
        if quantization is None:
            continue
        quantize, arguments = quantization
        weight = getattr_from_fqn(m, str(node.args[1].target)).detach()
        rounded, called = quantize(weight, *arguments), get_target_type_str(node, m)
        layer = str(wrappers[0].target).split("_")[2]
        for candidate, value in enumerate((weight, rounded)):
            weights[f"subgraph_{layer}_{candidate}"] = [{
                "res_type": WEIGHT, "values": [value],
                "prev_node_name": node.name, "prev_node_target_type": called,
                "ref_node_name": node.name, "ref_node_target_type": called,
                "index_within_arg": 0, "index_of_arg": 0,
                "fqn": None if scopes is None else scopes[node.name][0], "qconfig_str": "",
                "comparisons": [compute_sqnr(weight, rounded)], "comparison_fn_name": "sqnr",
            }]
    return {"model": {WEIGHT: weights}}


def group_results_by_subgraph(results: NSResultsType) -> dict[str, dict[str, Any]]:
    """Return {"subgraph_i": {"j": what form j of layer i recorded}}."""
    names = ("ref_node_name", "ref_node_target_type", "fqn", "values", "qconfig_str",
             "comparisons", "comparison_fn_name")
    grouped: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, (first, *_) in next(iter(results["model"].values())).items():
        layer, _, candidate = name.rpartition("_")
        grouped[layer][candidate] = {key: first[key] for key in names}
    return dict(grouped)


def create_results_comparison(results_grouped: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return each layer's node, operator and path, and the measures of its forms.

    {"subgraph_i": {"ref_node_name", "ref_node_target_type", "fqn", "candidates": {"j":
    {"qconfig_str", "comparison_fn_name", "cmp_raw", "cmp_mean"}}}}.
    """
    comparison = {}
    for layer, forms in results_grouped.items():
        candidates = {}
        for name, form in forms.items():
            if name != "0":
                raw = ops.stack(form["comparisons"])
                candidates[name] = {
                    "qconfig_str": form["qconfig_str"],
                    "comparison_fn_name": form["comparison_fn_name"],
                    "cmp_raw": raw, "cmp_mean": raw.mean()}
        comparison[layer] = {
            **{key: forms["0"][key] for key in ("ref_node_name", "ref_node_target_type", "fqn")},
            "candidates": candidates}
    return comparison


def print_n_shadows_summary(results_comparison: dict[str, Any]) -> None:
    """Print a row per layer with the mean measure of each form; needs the package tabulate."""
    try:
        from tabulate import tabulate
    except ImportError:
        print("`print_tabular` relies on the library `tabulate`, which could not be found on this "
              "machine. Run `pip install tabulate` to install the library.")
        return
    rows = [[layer["ref_node_name"], layer["ref_node_target_type"], layer["fqn"],
             *(form["cmp_mean"] for form in layer["candidates"].values())]
            for layer in results_comparison.values()]
    numbers = range(max((len(row) for row in rows), default=3) - 3)
    print(tabulate(rows, headers=["node_name", "node_type", "fqn", *map(str, numbers)]))


def print_comparisons_n_shadows_model(results: NSResultsType) -> None:
    """Print a summary of the results of `extract_results_n_shadows_model`."""
    print_n_shadows_summary(create_results_comparison(group_results_by_subgraph(results)))
