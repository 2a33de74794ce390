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
    """Fused modules take what their first part's class has; LookupError if the others' differ."""
    by_type = mapping.object_type_qconfigs
    for node in model.graph.nodes if by_type else ():
        module = model.get_submodule(node.target) if node.op == "call_module" else None
        if not isinstance(module, _FusedModule):
            continue
        first, *others = module._modules.values()
        qconfig = by_type.get(type(first))
        for part in others:
            if not qconfig_equals(by_type.get(type(part)), qconfig):
                raise LookupError(
                    "During fusion, we need to specify the same qconfigs for all module types in "
                    f"{type(module)} offending type: {type(part)}")
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


def _get_object_type_qconfig(mapping: QConfigMapping, kind: Any, fallback: Any) -> Any:
    return mapping.object_type_qconfigs.get(kind, fallback)


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


def _find_by_path(mapping: QConfigMapping, path: str, kind: Any, fallback: Any) -> Any:
    """Of a module's path; of a pattern of paths; of a class; or else."""
    by_class = _get_object_type_qconfig(mapping, kind, fallback)
    by_pattern = _get_module_name_regex_qconfig(mapping, path, by_class)
    return _get_module_name_qconfig(mapping, path, by_pattern)


def resolve_qconfigs(
    modules: dict[str, Any], graph: Any, mapping: QConfigMapping, scopes: dict[str, Any]
) -> dict[str, Any]:
    """The QConfig of each node, by its name; modules get theirs as `qconfig`."""
    result: dict[str, Any] = {}
    uses: Counter[tuple[str, Any]] = Counter()

    def find_by_order(path: str, kind: Any, fallback: Any) -> Any:
        index = uses[path, kind]
        uses[path, kind] += 1
        return _maybe_adjust_qconfig_for_module_name_object_type_order(
            mapping, path, kind, index, fallback)

    for node in graph.nodes:
        qconfig = None
        path, kind = scopes.get(node.name, ("", None))
        if node.op == "get_attr":
            owner = node.target.rpartition(".")[0]
            qconfig = _find_by_path(mapping, owner, type(modules[owner]), mapping.global_qconfig)
        elif node.op == "call_function":
            own = _get_object_type_qconfig(mapping, node.target, mapping.global_qconfig)
            qconfig = find_by_order(path, node.target, _find_by_path(mapping, path, kind, own))
        elif node.op == "call_method":
            own = _find_by_path(mapping, path, node.target, mapping.global_qconfig)
            qconfig = _find_by_path(mapping, path, kind, own)
        elif node.op == "call_module":
            module = modules[node.target]
            if _is_activation_post_process(module):
                continue
            own = _find_by_path(mapping, node.target, type(module), mapping.global_qconfig)
            qconfig = find_by_order(path.rpartition(".")[0], kind, own)
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
        before, after = (getattr(m, f"{name}_qconfigs") for m in (prepared, converted))
        for key, qconfig in before.items():
            if key not in after:
                raise AssertionError(f"Missing key {name} {key} in convert QConfigMapping when it "
                                     "was present in prepare")
            if after[key] is not None and not qconfig_equals(qconfig, after[key]):
                raise AssertionError(
                    "Expected convert QConfigMapping to have the same qconfig as prepare for key "
                    f"{name} {key}; prepare: {qconfig}; convert: {after[key]}")
