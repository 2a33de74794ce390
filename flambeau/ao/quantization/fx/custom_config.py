"""User settings of FX quantization: custom modules, inputs that are already quantized."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, TypeVar

from ..backend_config import BackendConfig
from ..qconfig_mapping import QConfigMapping
from ..quant_type import QuantType, _get_quant_type_to_str, _quant_type_from_str

__all__ = ["ConvertCustomConfig", "FuseCustomConfig", "PrepareCustomConfig",
           "StandaloneModuleConfigEntry"]

_T = TypeVar("_T")
STANDALONE_MODULE_NAME_DICT_KEY = "standalone_module_name"
STANDALONE_MODULE_CLASS_DICT_KEY = "standalone_module_class"
FLOAT_TO_OBSERVED_DICT_KEY = "float_to_observed_custom_module_class"
OBSERVED_TO_QUANTIZED_DICT_KEY = "observed_to_quantized_custom_module_class"
NON_TRACEABLE_MODULE_NAME_DICT_KEY = "non_traceable_module_name"
NON_TRACEABLE_MODULE_CLASS_DICT_KEY = "non_traceable_module_class"
INPUT_QUANTIZED_INDEXES_DICT_KEY = "input_quantized_idxs"
OUTPUT_QUANTIZED_INDEXES_DICT_KEY = "output_quantized_idxs"
PRESERVED_ATTRIBUTES_DICT_KEY = "preserved_attributes"


class StandaloneModuleConfigEntry(NamedTuple):
    """How to prepare a module that is quantized on its own."""

    qconfig_mapping: QConfigMapping | None
    example_inputs: tuple[Any, ...]
    prepare_custom_config: PrepareCustomConfig | None
    backend_config: BackendConfig | None


def _read(value: Any, cls: type[_T], key: str) -> _T | None:
    """Return an object, converted from a dictionary if necessary; ValueError for other types."""
    if value is None or isinstance(value, cls):
        return value
    if isinstance(value, dict):
        result: _T = cls.from_dict(value)  # type: ignore[attr-defined]
        return result
    raise ValueError(f"Expected {cls.__name__} in prepare_custom_config_dict[\"{key}\"], got "
                     f"'{type(value)}'")


def _write(value: Any) -> Any:
    return None if value is None else value.to_dict()


def _index_by_type_name(mapping: dict[QuantType, dict[type, type]]) -> dict[str, dict[type, type]]:
    return {_get_quant_type_to_str(quant_type): dict(classes)
            for quant_type, classes in mapping.items()}


class _CustomConfig:
    """Base class: attributes that the resulting model keeps."""

    def __init__(self) -> None:
        self.preserved_attributes: list[str] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({ {k: v for k, v in self.__dict__.items() if v} })"

    def set_preserved_attributes(self, attributes: list[str]) -> Any:
        """Set the attributes that the resulting model keeps."""
        self.preserved_attributes = attributes
        return self


class PrepareCustomConfig(_CustomConfig):
    """Modules that `prepare_fx` skips or prepares alone, and inputs that are already quantized.

    >>> from flambeau.ao.quantization.fx.custom_config import PrepareCustomConfig
    >>> PrepareCustomConfig().set_input_quantized_indexes([0])
    PrepareCustomConfig({'input_quantized_indexes': [0]})
    """

    _LISTS: ClassVar[dict[str, str]] = {
        "non_traceable_module_names": NON_TRACEABLE_MODULE_NAME_DICT_KEY,
        "non_traceable_module_classes": NON_TRACEABLE_MODULE_CLASS_DICT_KEY,
        "input_quantized_indexes": INPUT_QUANTIZED_INDEXES_DICT_KEY,
        "output_quantized_indexes": OUTPUT_QUANTIZED_INDEXES_DICT_KEY,
        "preserved_attributes": PRESERVED_ATTRIBUTES_DICT_KEY,
    }

    def __init__(self) -> None:
        super().__init__()
        self.standalone_module_names: dict[str, StandaloneModuleConfigEntry] = {}
        self.standalone_module_classes: dict[type, StandaloneModuleConfigEntry] = {}
        self.float_to_observed_mapping: dict[QuantType, dict[type, type]] = {}
        self.non_traceable_module_names: list[str] = []
        self.non_traceable_module_classes: list[type] = []
        self.input_quantized_indexes: list[int] = []
        self.output_quantized_indexes: list[int] = []

    def set_standalone_module_name(
        self, module_name: str, qconfig_mapping: QConfigMapping | None,
        example_inputs: tuple[Any, ...], prepare_custom_config: PrepareCustomConfig | None,
        backend_config: BackendConfig | None,
    ) -> PrepareCustomConfig:
        """Quantize the module at a path on its own."""
        self.standalone_module_names[module_name] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config)
        return self

    def set_standalone_module_class(
        self, module_class: type, qconfig_mapping: QConfigMapping | None,
        example_inputs: tuple[Any, ...], prepare_custom_config: PrepareCustomConfig | None,
        backend_config: BackendConfig | None,
    ) -> PrepareCustomConfig:
        """Quantize the modules of a class on their own."""
        self.standalone_module_classes[module_class] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config)
        return self

    def set_float_to_observed_mapping(
        self, float_class: type, observed_class: type,
        quant_type: QuantType = QuantType.STATIC,
    ) -> PrepareCustomConfig:
        """Replace modules of a class by `observed_class.from_float(module)`."""
        if quant_type != QuantType.STATIC:
            raise ValueError("set_float_to_observed_mapping is currently only supported for "
                             "static quantization")
        self.float_to_observed_mapping.setdefault(quant_type, {})[float_class] = observed_class
        return self

    def set_non_traceable_module_names(self, module_names: list[str]) -> PrepareCustomConfig:
        """Leave the modules at these paths unchanged."""
        self.non_traceable_module_names = module_names
        return self

    def set_non_traceable_module_classes(
        self, module_classes: list[type]
    ) -> PrepareCustomConfig:
        """Leave the modules of these classes unchanged."""
        self.non_traceable_module_classes = module_classes
        return self

    def set_input_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """Set which inputs are quantized tensors."""
        self.input_quantized_indexes = indexes
        return self

    def set_output_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """Set which results stay quantized tensors."""
        self.output_quantized_indexes = indexes
        return self

    @classmethod
    def from_dict(cls, prepare_custom_config_dict: dict[str, Any]) -> PrepareCustomConfig:
        """Rebuild from the dictionary of `to_dict`; ValueError for invalid entries."""
        result = cls()
        for key, store in ((STANDALONE_MODULE_NAME_DICT_KEY, result.set_standalone_module_name),
                           (STANDALONE_MODULE_CLASS_DICT_KEY, result.set_standalone_module_class)):
            for name, mapping, inputs, config, backend in prepare_custom_config_dict.get(key, []):
                store(name, _read(mapping, QConfigMapping, key), inputs,
                      _read(config, PrepareCustomConfig, key), _read(backend, BackendConfig, key))
        observed = prepare_custom_config_dict.get(FLOAT_TO_OBSERVED_DICT_KEY, {})
        for quant_type, classes in observed.items():
            for float_class, observed_class in classes.items():
                result.set_float_to_observed_mapping(
                    float_class, observed_class, _quant_type_from_str(quant_type))
        for attribute, key in cls._LISTS.items():
            setattr(result, attribute, prepare_custom_config_dict.get(key, []))
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as a dictionary."""
        result: dict[str, Any] = {}
        for key, entries in ((STANDALONE_MODULE_NAME_DICT_KEY, self.standalone_module_names),
                             (STANDALONE_MODULE_CLASS_DICT_KEY, self.standalone_module_classes)):
            rows = [(name, _write(e.qconfig_mapping), e.example_inputs,
                     _write(e.prepare_custom_config), e.backend_config)
                    for name, e in entries.items()]
            if rows:
                result[key] = rows
        if self.float_to_observed_mapping:
            result[FLOAT_TO_OBSERVED_DICT_KEY] = _index_by_type_name(
                self.float_to_observed_mapping)
        for attribute, key in self._LISTS.items():
            if getattr(self, attribute):
                result[key] = getattr(self, attribute)
        return result


class ConvertCustomConfig(_CustomConfig):
    """Replacements by `convert_fx` for custom observed modules."""

    def __init__(self) -> None:
        super().__init__()
        self.observed_to_quantized_mapping: dict[QuantType, dict[type, type]] = {}

    def set_observed_to_quantized_mapping(
        self, observed_class: type, quantized_class: type,
        quant_type: QuantType = QuantType.STATIC,
    ) -> ConvertCustomConfig:
        """Replace modules of a class by `quantized_class.from_observed(module)`."""
        self.observed_to_quantized_mapping.setdefault(
            quant_type, {})[observed_class] = quantized_class
        return self

    @classmethod
    def from_dict(cls, convert_custom_config_dict: dict[str, Any]) -> ConvertCustomConfig:
        """Rebuild from the dictionary of `to_dict`."""
        result = cls()
        key = OBSERVED_TO_QUANTIZED_DICT_KEY
        for quant_type, classes in convert_custom_config_dict.get(key, {}).items():
            for observed_class, quantized_class in classes.items():
                result.set_observed_to_quantized_mapping(
                    observed_class, quantized_class, _quant_type_from_str(quant_type))
        result.set_preserved_attributes(
            convert_custom_config_dict.get(PRESERVED_ATTRIBUTES_DICT_KEY, []))
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as a dictionary."""
        result: dict[str, Any] = {}
        if self.observed_to_quantized_mapping:
            result[OBSERVED_TO_QUANTIZED_DICT_KEY] = _index_by_type_name(
                self.observed_to_quantized_mapping)
        if self.preserved_attributes:
            result[PRESERVED_ATTRIBUTES_DICT_KEY] = self.preserved_attributes
        return result


class FuseCustomConfig(_CustomConfig):
    """Attributes of the model that `fuse_fx` preserves."""

    @classmethod
    def from_dict(cls, fuse_custom_config_dict: dict[str, Any]) -> FuseCustomConfig:
        """Rebuild from the dictionary of `to_dict`."""
        result = cls()
        result.set_preserved_attributes(
            fuse_custom_config_dict.get(PRESERVED_ATTRIBUTES_DICT_KEY, []))
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as a dictionary."""
        preserved = self.preserved_attributes
        return {PRESERVED_ATTRIBUTES_DICT_KEY: preserved} if preserved else {}
