"""Assigns a mapping's QConfigs to the nodes of a graph."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from ...nn.intrinsic import _FusedModule
from ..backend_config import BackendConfig
from ..observer import _is_activation_post_process
from ..qconfig import qconfig_equals
from ..qconfig_mapping import QConfigMapping
from ..quantize import check_qconfig


def adapt_to_fusion(model: Any, mapping: QConfigMapping) -> None:
    """Give fused modules the QConfig of their first module's class; LookupError if they differ."""
    by_type = mapping.object_type_qconfigs
    for node in model.graph.nodes if by_type else ():
        module = model.get_submodule(node.target) if node.op == "call_module" else None
        if not isinstance(module, _FusedModule):
            continue
        first, *later_modules = module._modules.values()
        qconfig = by_type.get(type(first))
        for later in later_modules:
            if not qconfig_equals(by_type.get(type(later)), qconfig):
                raise LookupError(
                    "During fusion, we need to specify the same qconfigs for all module types in "
                    f"{type(module)} offending type: {type(later)}")
        if qconfig is not None:
            by_type[type(module)] = qconfig


def adapt_to_qat(mapping: QConfigMapping, backend: BackendConfig) -> None:
    """Give QAT modules the QConfigs of the modules they replace."""
    by_type = mapping.object_type_qconfigs
    for pattern, config in backend._pattern_complex_format_to_config.items():
        if config.qat_module is not None and pattern in by_type:
            by_type[config.qat_module] = by_type[pattern]


def flatten(mapping: QConfigMapping) -> dict[Any, Any]:
    """Classes and names in one dictionary, as eager mode takes it."""
    return {"": mapping.global_qconfig, **mapping.object_type_qconfigs,
            **mapping.module_name_qconfigs}


def _get_object_type_qconfig(mapping: QConfigMapping, object_type: Any, fallback: Any) -> Any:
    return mapping.object_type_qconfigs.get(object_type, fallback)


def _get_module_name_regex_qconfig(mapping: QConfigMapping, path: str, fallback: Any) -> Any:
    return next((qconfig for pattern, qconfig in mapping.module_name_regex_qconfigs.items()
                 if re.match(pattern, path)), fallback)


def _get_module_name_qconfig(mapping: QConfigMapping, path: str, fallback: Any) -> Any:
    """Of a module's path, or of the nearest one above it."""
    while path:
        if path in mapping.module_name_qconfigs:
            return mapping.module_name_qconfigs[path]
        path = path.rpartition(".")[0]
    return fallback


def _maybe_adjust_qconfig_for_module_name_object_type_order(
    mapping: QConfigMapping, path: str, kind: Any, index: int, fallback: Any
) -> Any:
    return mapping.module_name_object_type_order_qconfigs.get((path, kind, index), fallback)


def _find_by_path(mapping: QConfigMapping, path: str, object_type: Any, fallback: Any) -> Any:
    """Return the QConfig of a module's path, of a pattern of paths, of a class, or the fallback."""
    by_class = _get_object_type_qconfig(mapping, object_type, fallback)
    by_pattern = _get_module_name_regex_qconfig(mapping, path, by_class)
    return _get_module_name_qconfig(mapping, path, by_pattern)


def resolve_qconfigs(
    modules: dict[str, Any], graph: Any, mapping: QConfigMapping, scopes: dict[str, Any]
) -> dict[str, Any]:
    """Return the QConfig of each node by name; set `qconfig` of modules."""
    result: dict[str, Any] = {}
    uses: Counter[tuple[str, Any]] = Counter()

    def find_by_order(path: str, scope_type: Any, fallback: Any) -> Any:
        index = uses[path, scope_type]
        uses[path, scope_type] += 1
        return _maybe_adjust_qconfig_for_module_name_object_type_order(
            mapping, path, scope_type, index, fallback)

    for node in graph.nodes:
        qconfig = None
        path, scope_type = scopes.get(node.name, ("", None))
        if node.op == "get_attr":
            owner = node.target.rpartition(".")[0]
            qconfig = _find_by_path(mapping, owner, type(modules[owner]), mapping.global_qconfig)
        elif node.op == "call_function":
            broader = _get_object_type_qconfig(mapping, node.target, mapping.global_qconfig)
            qconfig = find_by_order(path, node.target,
                                    _find_by_path(mapping, path, scope_type, broader))
        elif node.op == "call_method":
            broader = _find_by_path(mapping, path, node.target, mapping.global_qconfig)
            qconfig = _find_by_path(mapping, path, scope_type, broader)
        elif node.op == "call_module":
            module = modules[node.target]
            if _is_activation_post_process(module):
                continue
            broader = _find_by_path(mapping, node.target, type(module), mapping.global_qconfig)
            qconfig = find_by_order(path.rpartition(".")[0], scope_type, broader)
            check_qconfig(module, qconfig)
            module.qconfig = qconfig
        result[node.name] = qconfig
    return result


def compare_mappings(prepared: QConfigMapping, converted: QConfigMapping) -> None:
    """Raise AssertionError if `convert_fx` and `prepare_fx` got different mappings.

    QConfigs may be None there.
    """
    if not qconfig_equals(prepared.global_qconfig, converted.global_qconfig):
        raise AssertionError("Expected global qconfigs to be the same in the prepare and convert "
                             "quantization configs")
    for name in ("object_type", "module_name", "module_name_regex"):
        prepared_configs, converted_configs = (getattr(m, f"{name}_qconfigs")
                                               for m in (prepared, converted))
        for key, qconfig in prepared_configs.items():
            if key not in converted_configs:
                raise AssertionError(f"Missing key {name} {key} in convert QConfigMapping when it "
                                     "was present in prepare")
            converted_qconfig = converted_configs[key]
            if converted_qconfig is not None and not qconfig_equals(qconfig, converted_qconfig):
                raise AssertionError(
                    "Expected convert QConfigMapping to have the same qconfig as prepare for key "
                    f"{name} {key}; prepare: {qconfig}; convert: {converted_configs[key]}")
