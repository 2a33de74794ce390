"""QConfigMultiMapping: several QConfigs for each layer, which are compared in one run."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from ...quantization.qconfig import qconfig_equals
from ...quantization.qconfig_mapping import _KEYS, QConfigMapping

__all__ = ["QConfigMultiMapping"]


def _drop_duplicates(qconfigs: Iterable[Any]) -> list[Any]:
    """Return QConfigs without None and without repetitions."""
    result: list[Any] = []
    for qconfig in qconfigs:
        if qconfig is not None and not any(qconfig_equals(qconfig, other) for other in result):
            result.append(qconfig)
    return result


class QConfigMultiMapping:
    """A list of QConfigMappings with methods that set a list of QConfigs, one in each.

    All mappings have the same keys, with None where a key has fewer QConfigs than others: so a key
    of higher priority hides all QConfigs of lower priority.

    >>> from flambeau.ao.ns.fx.qconfig_multi_mapping import QConfigMultiMapping
    >>> from flambeau.ao.quantization import default_dynamic_qconfig, default_qconfig
    >>> mapping = QConfigMultiMapping().set_global([default_qconfig, default_dynamic_qconfig])
    >>> mapping = mapping.set_module_name("head", [default_qconfig])
    >>> len(mapping.qconfig_mappings_list)
    2
    """

    def __init__(self) -> None:
        self.qconfig_mappings_list: list[QConfigMapping] = [QConfigMapping()]

    def _extend(self, count: int) -> None:
        """Add mappings with the keys of the others until there are `count`."""
        while len(self.qconfig_mappings_list) < count:
            mapping = QConfigMapping()
            for style in _KEYS:
                keys = getattr(self.qconfig_mappings_list[0], f"{style}_qconfigs")
                getattr(mapping, f"{style}_qconfigs").update(dict.fromkeys(keys))
            self.qconfig_mappings_list.append(mapping)

    def _insert(self, style: str, key: tuple[Any, ...], qconfigs: list[Any]) -> Any:
        qconfigs = _drop_duplicates(qconfigs)
        self._extend(len(qconfigs))
        mappings = self.qconfig_mappings_list
        qconfigs += [None] * (len(mappings) - len(qconfigs))
        for mapping, qconfig in zip(mappings, qconfigs, strict=True):
            getattr(mapping, f"set_{style}")(*key, qconfig)
        return self

    def set_global(self, global_qconfig_list: list[Any]) -> QConfigMultiMapping:
        """Set the default QConfigs."""
        return self._insert("global", (), global_qconfig_list)

    def set_object_type(self, object_type: Any, qconfig_list: list[Any]) -> QConfigMultiMapping:
        """Set the QConfigs of a class of modules, a function, or a method's name."""
        return self._insert("object_type", (object_type,), qconfig_list)

    def set_module_name_regex(
        self, module_name_regex: str, qconfig_list: list[Any]
    ) -> QConfigMultiMapping:
        """Set the QConfigs of modules whose path matches."""
        return self._insert("module_name_regex", (module_name_regex,), qconfig_list)

    def set_module_name(self, module_name: str, qconfig_list: list[Any]) -> QConfigMultiMapping:
        """Set the QConfigs of a module and its submodules."""
        return self._insert("module_name", (module_name,), qconfig_list)

    def set_module_name_object_type_order(
        self, module_name: str, object_type: Any, index: int, qconfig_list: list[Any]
    ) -> QConfigMultiMapping:
        """Set the QConfigs of the index-th use of a class or function in a module."""
        return self._insert("module_name_object_type_order", (module_name, object_type, index),
                            qconfig_list)

    def __repr__(self) -> str:
        mappings = "".join(f"\n{mapping!r}," for mapping in self.qconfig_mappings_list)
        return f"{type(self).__name__} [{mappings}\n]"

    @classmethod
    def from_list_qconfig_mapping(
        cls, qconfig_mapping_list: list[QConfigMapping]
    ) -> QConfigMultiMapping:
        """Return a mapping with the QConfigs of several mappings."""
        result = cls()
        result.qconfig_mappings_list = copy.deepcopy(qconfig_mapping_list)
        for style in _KEYS:
            tables = [getattr(mapping, f"{style}_qconfigs") for mapping in qconfig_mapping_list]
            for key in dict.fromkeys(key for table in tables for key in table):
                result._insert(style, key if isinstance(key, tuple) else (key,),
                               [table[key] for table in tables if key in table])
        return result
