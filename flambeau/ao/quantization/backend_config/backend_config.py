"""BackendConfig: the patterns that a backend quantizes, their dtypes and observers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ....tensor.dtypes import dtype

__all__ = ["BackendConfig", "BackendPatternConfig", "DTypeConfig", "DTypeWithConstraints",
           "ObservationType"]


class ObservationType(Enum):
    """How the results of a pattern are observed."""

    OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT = 0
    OUTPUT_SHARE_OBSERVER_WITH_INPUT = 1
    INPUT_OUTPUT_NOT_OBSERVED = 2


@dataclass
class DTypeWithConstraints:
    """A dtype with bounds on an observer's range, or with a required scale."""

    dtype: Any = None
    quant_min_lower_bound: float | None = None
    quant_max_upper_bound: float | None = None
    scale_min_lower_bound: float | None = None
    scale_max_upper_bound: float | None = None
    scale_exact_match: float | None = None
    zero_point_exact_match: int | None = None


_CONSTRAINED = ("input_dtype", "output_dtype", "weight_dtype")


@dataclass(init=False)
class DTypeConfig:
    """The input, output, weight and bias dtypes of a pattern on a backend.

    >>> from flambeau.ao.quantization.backend_config import DTypeConfig
    >>> DTypeConfig(input_dtype=torch.quint8).to_dict().keys()
    dict_keys(['input_dtype'])
    """

    input_dtype_with_constraints: DTypeWithConstraints
    output_dtype_with_constraints: DTypeWithConstraints
    weight_dtype_with_constraints: DTypeWithConstraints
    bias_dtype: Any
    is_dynamic: bool | None

    def __init__(
        self, input_dtype: Any = None, output_dtype: Any = None, weight_dtype: Any = None,
        bias_dtype: Any = None, is_dynamic: bool | None = None,
    ) -> None:
        for name, value in zip(_CONSTRAINED, (input_dtype, output_dtype, weight_dtype),
                               strict=True):
            constrained = value if isinstance(value, DTypeWithConstraints) \
                else DTypeWithConstraints(value)
            setattr(self, f"{name}_with_constraints", constrained)
        self.bias_dtype, self.is_dynamic = bias_dtype, is_dynamic

    @property
    def input_dtype(self) -> Any:
        """The input's dtype."""
        return self.input_dtype_with_constraints.dtype

    @property
    def output_dtype(self) -> Any:
        """The output's dtype."""
        return self.output_dtype_with_constraints.dtype

    @property
    def weight_dtype(self) -> Any:
        """The weight's dtype."""
        return self.weight_dtype_with_constraints.dtype

    @classmethod
    def from_dict(cls, dtype_config_dict: dict[str, Any]) -> DTypeConfig:
        """Rebuild from the dictionary of `to_dict`; ValueError for values that are not dtypes."""
        for name in _CONSTRAINED:
            value = dtype_config_dict.get(name)
            if value is not None and not isinstance(value, (dtype, DTypeWithConstraints)):
                raise ValueError(f"Expected {name} to be a torch.dtype or DTypeWithConstraints")
        return cls(*map(dtype_config_dict.get, (*_CONSTRAINED, "bias_dtype", "is_dynamic")))

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as a dictionary."""
        result = {name: getattr(self, f"{name}_with_constraints") for name in _CONSTRAINED
                  if getattr(self, name) is not None}
        for name in ("bias_dtype", "is_dynamic"):
            if getattr(self, name) is not None:
                result[name] = getattr(self, name)
        return result


# Attributes of a pattern's config and their dictionary keys; the first two are always present.
_PATTERN_KEYS = {
    "observation_type": "observation_type", "dtype_configs": "dtype_configs",
    "pattern": "pattern", "root_module": "root_module", "qat_module": "qat_module",
    "reference_quantized_module": "reference_quantized_module_for_root",
    "fused_module": "fused_module", "fuser_method": "fuser_method",
    "_root_node_getter": "root_node_getter", "_extra_inputs_getter": "extra_inputs_getter",
    "_num_tensor_args_to_observation_type": "num_tensor_args_to_observation_type",
    "_input_type_to_index": "input_type_to_index",
    "_pattern_complex_format": "pattern_complex_format",
}


class BackendPatternConfig:
    """How a backend quantizes a pattern: one operator, or a sequence of two or three."""

    def __init__(self, pattern: Any = None) -> None:
        self.pattern = pattern
        self.observation_type = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
        self.dtype_configs: list[DTypeConfig] = []
        self.root_module: Any = None
        self.qat_module: Any = None
        self.reference_quantized_module: Any = None
        self.fused_module: Any = None
        self.fuser_method: Callable[..., Any] | None = None
        self._root_node_getter: Callable[..., Any] | None = None
        self._extra_inputs_getter: Callable[..., Any] | None = None
        self._num_tensor_args_to_observation_type: dict[int, ObservationType] = {}
        self._input_type_to_index: dict[str, int] = {}
        self._pattern_complex_format: Any = None

    def __repr__(self) -> str:
        nonempty = {k: v for k, v in self.__dict__.items() if v is not None and v not in ([], {})}
        return f"BackendPatternConfig({nonempty})"

    def _set(self, attribute: str, value: Any) -> BackendPatternConfig:
        setattr(self, attribute, value)
        return self

    def _set_pattern(self, attribute: str, other: str, pattern: Any) -> BackendPatternConfig:
        if getattr(self, other) is not None:
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        return self._set(attribute, pattern)

    def set_pattern(self, pattern: Any) -> BackendPatternConfig:
        """Set the pattern; sequences are in execution order."""
        return self._set_pattern("pattern", "_pattern_complex_format", pattern)

    def set_observation_type(self, observation_type: ObservationType) -> BackendPatternConfig:
        """Set how results are observed."""
        return self._set("observation_type", observation_type)

    def add_dtype_config(self, dtype_config: DTypeConfig) -> BackendPatternConfig:
        """Add a combination of dtypes that the pattern supports."""
        self.dtype_configs.append(dtype_config)
        return self

    def set_dtype_configs(self, dtype_configs: list[DTypeConfig]) -> BackendPatternConfig:
        """Set all combinations of dtypes that the pattern supports."""
        return self._set("dtype_configs", dtype_configs)

    def set_root_module(self, root_module: Any) -> BackendPatternConfig:
        """Set the class of the float module whose weights are quantized."""
        return self._set("root_module", root_module)

    def set_qat_module(self, qat_module: Any) -> BackendPatternConfig:
        """Set the class that replaces the pattern in quantization-aware training."""
        return self._set("qat_module", qat_module)

    def set_reference_quantized_module(
        self, reference_quantized_module: Any
    ) -> BackendPatternConfig:
        """Set the class that replaces the root module and computes with rounded weights."""
        return self._set("reference_quantized_module", reference_quantized_module)

    def set_fused_module(self, fused_module: Any) -> BackendPatternConfig:
        """Set the class that the pattern's modules are fused into."""
        return self._set("fused_module", fused_module)

    def set_fuser_method(self, fuser_method: Callable[..., Any]) -> BackendPatternConfig:
        """Set the fusing function; it takes `is_qat` and the pattern's modules."""
        return self._set("fuser_method", fuser_method)

    def _set_root_node_getter(self, getter: Callable[..., Any]) -> BackendPatternConfig:
        return self._set("_root_node_getter", getter)

    def _set_extra_inputs_getter(self, getter: Callable[..., Any]) -> BackendPatternConfig:
        return self._set("_extra_inputs_getter", getter)

    def _set_num_tensor_args_to_observation_type(
        self, mapping: dict[int, ObservationType]
    ) -> BackendPatternConfig:
        return self._set("_num_tensor_args_to_observation_type", mapping)

    def _set_input_type_to_index(self, mapping: dict[str, int]) -> BackendPatternConfig:
        return self._set("_input_type_to_index", mapping)

    def _set_pattern_complex_format(self, pattern: Any) -> BackendPatternConfig:
        return self._set_pattern("_pattern_complex_format", "pattern", pattern)

    def reverse_pattern(self) -> Any:
        """The pattern in matching order, from the last operator back: (c, (b, a))."""
        if self._pattern_complex_format is not None:
            return self._pattern_complex_format
        if self.pattern is None:
            raise ValueError("Either 'pattern' or 'pattern_complex_format' must be set")
        if not isinstance(self.pattern, tuple):
            return self.pattern
        if len(self.pattern) not in (2, 3):
            raise ValueError("Expected a tuple with 2 or 3 elements, got: ", self.pattern)
        first, second, *third = self.pattern
        return (third[0], (second, first)) if third else (second, first)

    @classmethod
    def from_dict(cls, backend_pattern_config_dict: dict[str, Any]) -> BackendPatternConfig:
        """Rebuild from the dictionary of `to_dict`; ValueError for invalid dtypes."""
        result = cls()
        for attribute, key in _PATTERN_KEYS.items():
            if attribute != "dtype_configs" and key in backend_pattern_config_dict:
                setattr(result, attribute, backend_pattern_config_dict[key])
        for value in backend_pattern_config_dict.get("dtype_configs", []):
            if not isinstance(value, (DTypeConfig, dict)):
                raise ValueError("Expected a list of DTypeConfigs in backend_pattern_config_dict["
                                 f"\"dtype_configs\"], got '{type(value)}'")
            result.add_dtype_config(
                DTypeConfig.from_dict(value) if isinstance(value, dict) else value)
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as a dictionary."""
        result: dict[str, Any] = {"observation_type": self.observation_type,
                                  "dtype_configs": [c.to_dict() for c in self.dtype_configs]}
        for attribute, key in list(_PATTERN_KEYS.items())[2:]:
            value = getattr(self, attribute)
            if value is not None and value != {}:
                result[key] = value
        return result


class BackendConfig:
    """The patterns that a backend quantizes.

    >>> from flambeau.ao.quantization.backend_config import get_native_backend_config
    >>> get_native_backend_config().name
    'native'
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._pattern_complex_format_to_config: dict[Any, BackendPatternConfig] = {}

    def __repr__(self) -> str:
        return f"BackendConfig({self.__dict__})"

    def set_name(self, name: str) -> BackendConfig:
        """Set the backend's name."""
        self.name = name
        return self

    def set_backend_pattern_config(self, config: BackendPatternConfig) -> BackendConfig:
        """Add or replace a pattern's configuration."""
        self._pattern_complex_format_to_config[config.reverse_pattern()] = config
        return self

    def set_backend_pattern_configs(self, configs: list[BackendPatternConfig]) -> BackendConfig:
        """Add several patterns."""
        for config in configs:
            self.set_backend_pattern_config(config)
        return self

    @property
    def configs(self) -> list[BackendPatternConfig]:
        """All patterns."""
        return list(self._pattern_complex_format_to_config.values())

    @classmethod
    def from_dict(cls, backend_config_dict: dict[str, Any]) -> BackendConfig:
        """Rebuild from the dictionary of `to_dict`; ValueError for invalid patterns."""
        result = cls(backend_config_dict.get("name", ""))
        for value in backend_config_dict.get("configs", []):
            if not isinstance(value, (BackendPatternConfig, dict)):
                raise ValueError("Expected backend_config_dict['configs'] to be a dictionary")
            result.set_backend_pattern_config(
                BackendPatternConfig.from_dict(value) if isinstance(value, dict) else value)
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return name and patterns as a dictionary."""
        return {"name": self.name, "configs": [config.to_dict() for config in self.configs]}
