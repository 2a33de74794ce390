"""Results of the numeric suite: names of layers for their keys, and paths of modules."""

from __future__ import annotations

from .ns_types import NSResultsType

__all__ = ["maybe_add_missing_fqns", "rekey_logger_info_on_node_name_of_model"]


def rekey_logger_info_on_node_name_of_model(
    results: NSResultsType, model_name: str
) -> NSResultsType:
    """Return results by the names of one model's nodes, in place of arbitrary names.

    Results of which that model has none stay under their name.
    """
    renamed = {}
    for name, by_type in results.items():
        for by_model in by_type.values():
            if model_name in by_model:
                name = by_model[model_name][0]["ref_node_name"]
        renamed[name] = by_type
    return renamed


def maybe_add_missing_fqns(results: NSResultsType) -> None:
    """Copy modules' paths from the model that has them, such as a prepared one, to the others."""
    first_by_model = next((by_model for by_type in results.values()
                           for by_model in by_type.values()), {})
    named = [model for model, layers in first_by_model.items()
             if layers and layers[0]["fqn"] is not None]
    if not named:
        return
    for by_type in results.values():
        for by_model in by_type.values():
            for layers in by_model.values():
                for layer, reference in zip(layers, by_model[named[0]], strict=False):
                    layer["fqn"] = reference["fqn"]
