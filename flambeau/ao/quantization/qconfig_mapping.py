"""QConfigMapping: the QConfigs of a model's modules, functions and methods."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ... import ops
from ...nn import functional as F
from ...nn import modules
from .fake_quantize import default_weight_fake_quant
from .fixed_parameters import (
    FixedQParamsFakeQuantize, default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)
from .observer import default_placeholder_observer, default_weight_observer
from .qconfig import (
    QConfig, default_quint8_weight_qconfig, default_reuse_input_qconfig,
    default_symmetric_qnnpack_qat_qconfig, default_symmetric_qnnpack_qconfig,
    get_default_qat_qconfig, get_default_qconfig,
)

__all__ = ["QConfigMapping", "get_default_qat_qconfig_mapping", "get_default_qconfig_mapping"]

# Operators whose results lie in a known range.
_FIXED_QPARAMS_OP_TO_OBSERVER: dict[Any, Any] = {
    **dict.fromkeys((modules.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_",
                     modules.Sigmoid, ops.sigmoid, "sigmoid", "sigmoid_", modules.Softmax),
                    default_fixed_qparams_range_0to1_observer),
    **dict.fromkeys((modules.Tanh, ops.tanh, "tanh", "tanh_"),
                    default_fixed_qparams_range_neg1to1_observer),
}
_TRANSPOSED = tuple(getattr(home, name.format(rank)) for home, name in (
    (modules, "ConvTranspose{}d"), (F, "conv_transpose{}d")) for rank in (1, 2, 3))
_GLOBAL_DICT_KEY = ""
_OBJECT_TYPE_DICT_KEY = "object_type"
_MODULE_NAME_REGEX_DICT_KEY = "module_name_regex"
_MODULE_NAME_DICT_KEY = "module_name"
_MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY = "module_name_object_type_order"
_KEYS = (_OBJECT_TYPE_DICT_KEY, _MODULE_NAME_REGEX_DICT_KEY, _MODULE_NAME_DICT_KEY,
         _MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY)  # in order of priority


class QConfigMapping:
    """QConfigs by name, by class, or global, in this order of precedence.

    >>> mapping = torch.ao.quantization.QConfigMapping()
    >>> _ = mapping.set_global(torch.ao.quantization.default_qconfig)
    >>> _ = mapping.set_module_name("head", None)
    >>> mapping.to_dict()["module_name"]
    [('head', None)]
    """

    def __init__(self) -> None:
        self.global_qconfig: Any = None
        self.object_type_qconfigs: OrderedDict[Any, Any] = OrderedDict()
        self.module_name_regex_qconfigs: OrderedDict[str, Any] = OrderedDict()
        self.module_name_qconfigs: OrderedDict[str, Any] = OrderedDict()
        self.module_name_object_type_order_qconfigs: OrderedDict[Any, Any] = OrderedDict()

    def set_global(self, global_qconfig: Any) -> QConfigMapping:
        """Set the default QConfig."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type: Any, qconfig: Any) -> QConfigMapping:
        """Set the QConfig of a class of modules, a function, or a method's name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex: str, qconfig: Any) -> QConfigMapping:
        """Set the QConfig of modules whose path matches; the first pattern set wins."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: Any) -> QConfigMapping:
        """Set the QConfig of a module and its submodules."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(
        self, module_name: str, object_type: Any, index: int, qconfig: Any
    ) -> QConfigMapping:
        """Set the QConfig of the index-th use of a class or function in a module."""
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for attribute in ("global_qconfig", *(f"{key}_qconfigs" for key in _KEYS)):
            value = getattr(self, attribute)
            lines.append(f" {attribute}")
            if isinstance(value, OrderedDict) and value:
                lines += [f"  {key}: {qconfig}" for key, qconfig in value.items()]
            else:
                lines.append(f"  {value}")
        return "\n".join([*lines, ")"])

    def to_dict(self) -> dict[str, Any]:
        """Return the mapping as a dictionary of lists."""
        result: dict[str, Any] = {_GLOBAL_DICT_KEY: self.global_qconfig}
        for key in _KEYS:
            items = getattr(self, f"{key}_qconfigs").items()
            result[key] = [(*k, v) if isinstance(k, tuple) else (k, v) for k, v in items]
        return result

    @classmethod
    def from_dict(cls, qconfig_dict: dict[str, Any]) -> QConfigMapping:
        """Rebuild from the dictionary of `to_dict`."""
        result = cls()
        if _GLOBAL_DICT_KEY in qconfig_dict:
            result.set_global(qconfig_dict[_GLOBAL_DICT_KEY])
        for key in _KEYS:
            for entry in qconfig_dict.get(key, []):
                getattr(result, f"set_{key}")(*entry)
        return result


def _choose_defaults(is_qat: bool, backend: str, version: int) -> QConfigMapping:
    qconfig = (get_default_qat_qconfig if is_qat else get_default_qconfig)(backend, version)
    weight = default_weight_fake_quant if is_qat else default_weight_observer
    result = QConfigMapping().set_global(qconfig)
    result.set_object_type("reshape", default_reuse_input_qconfig)
    by_tensor = QConfig(qconfig.activation, weight) if backend in ("fbgemm", "x86") else qconfig
    for operator in _TRANSPOSED:  # FBGEMM has no per-channel transposed convolution
        result.set_object_type(operator, by_tensor)
    float_weights = QConfig(qconfig.activation, default_placeholder_observer)
    result.set_object_type(F.layer_norm, float_weights)
    result.set_object_type(modules.LayerNorm, float_weights)
    result.set_object_type(modules.PReLU, default_quint8_weight_qconfig)
    by_observer: dict[Any, QConfig] = {}
    for operator, observer in _FIXED_QPARAMS_OP_TO_OBSERVER.items():
        if observer not in by_observer:
            activation = FixedQParamsFakeQuantize.with_args(observer=observer) if is_qat \
                else observer
            by_observer[observer] = QConfig(activation, weight)
        result.set_object_type(operator, by_observer[observer])
    return result


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """Return PyTorch's default mapping for post-training quantization.

    `backend`: "x86", "fbgemm", "qnnpack" or "onednn". AssertionError for others.

    >>> mapping = torch.ao.quantization.get_default_qconfig_mapping("qnnpack")
    >>> mapping.global_qconfig.weight().qscheme
    torch.per_tensor_symmetric
    """
    return _choose_defaults(False, backend, version)


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """Return PyTorch's default mapping for training; `backend` as in `get_default_qconfig_mapping`.

    >>> mapping = torch.ao.quantization.get_default_qat_qconfig_mapping("qnnpack")
    >>> mapping.global_qconfig.weight().qscheme
    torch.per_tensor_symmetric
    """
    return _choose_defaults(True, backend, version)


def _get_symmetric_qnnpack_qconfig_mapping() -> QConfigMapping:
    return _set_qconfig(get_default_qconfig_mapping("qnnpack"),
                        default_symmetric_qnnpack_qconfig)


def _get_symmetric_qnnpack_qat_qconfig_mapping() -> QConfigMapping:
    return _set_qconfig(get_default_qat_qconfig_mapping("qnnpack"),
                        default_symmetric_qnnpack_qat_qconfig)


def _set_qconfig(mapping: QConfigMapping, qconfig: QConfig) -> QConfigMapping:
    """Set another QConfig for all but operators with a known range; return the mapping."""
    mapping.set_global(qconfig)
    for operator in mapping.object_type_qconfigs:
        if operator not in _FIXED_QPARAMS_OP_TO_OBSERVER:
            mapping.set_object_type(operator, qconfig)
    return mapping
