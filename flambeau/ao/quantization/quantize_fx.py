"""FX graph mode quantization: trace a model, observe samples, convert it to integers.

The model's code needs no changes: no stubs, and no modules in place of sums. Errors for code that
cannot be traced name the line.
"""

from __future__ import annotations

import copy
from typing import Any

from ...fx import GraphModule, symbolic_trace
from ...fx.graph_module import _USER_PRESERVED_ATTRIBUTES_KEY
from ...native.foundation.user_frames import warn
from .backend_config import BackendConfig
from .fx.convert import convert
from .fx.custom_config import ConvertCustomConfig, FuseCustomConfig, PrepareCustomConfig
from .fx.decomposed_conversion import DecomposedConversion
from .fx.fuse import fuse
from .fx.prepare import trace_and_prepare
from .fx.tracer import QuantizationTracer as QuantizationTracer
from .qconfig_mapping import QConfigMapping

__all__ = ["convert_fx", "convert_to_reference_fx", "fuse_fx", "prepare_fx", "prepare_qat_fx"]


def _read(value: Any, cls: Any, name: str) -> Any:
    """Return an object of a class, created for None and converted from deprecated dictionaries."""
    if value is None:
        return cls()
    if isinstance(value, dict):
        warn(f"Passing a {name} dictionary is deprecated and will not be supported in a future "
             f"version. Please pass in a {cls.__name__} instead.", FutureWarning)
        return cls.from_dict(value)
    if not isinstance(value, cls):
        raise AssertionError(f"{name} must be a {cls.__name__}")
    return value


def _read_backend(value: Any) -> Any:
    return None if value is None else _read(value, BackendConfig, "backend_config")


def _preserve(model: Any, attributes: dict[str, Any]) -> Any:
    model.meta[_USER_PRESERVED_ATTRIBUTES_KEY] = copy.copy(attributes)
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


def _collect_attributes(model: Any, names: list[str]) -> dict[str, Any]:
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def fuse_fx(model: Any, fuse_custom_config: Any = None, backend_config: Any = None) -> Any:
    """Return the model in eval mode with batch normalization folded and ReLU fused.

    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()).eval()
    >>> type(getattr(torch.ao.quantization.quantize_fx.fuse_fx(net), "0"))
    <class 'flambeau.ao.nn.intrinsic.fused.LinearReLU'>
    """
    custom = _read(fuse_custom_config, FuseCustomConfig, "fuse_custom_config")
    preserved = _collect_attributes(model, custom.preserved_attributes)
    fused = fuse(symbolic_trace(model), False, _read_backend(backend_config))
    return _preserve(fused, preserved)


def prepare_fx(
    model: Any, qconfig_mapping: Any, example_inputs: Any, prepare_custom_config: Any = None,
    _equalization_config: Any = None, backend_config: Any = None,
) -> Any:
    """Return the traced and fused model with observers; run it on samples, then convert it.

    `qconfig_mapping`: how modules and operators are observed; `example_inputs` are not used. Errors
    for code that cannot be traced name the line.

    >>> from flambeau.ao.quantization.quantize_fx import convert_fx, prepare_fx
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()).eval()
    >>> x = torch.tensor([[1., 2.]])
    >>> mapping = torch.ao.quantization.get_default_qconfig_mapping("fbgemm")
    >>> prepared = prepare_fx(net, mapping, (x,))
    >>> _ = prepared(x)
    >>> convert_fx(prepared)(x).shape
    torch.Size([1, 2])
    """
    return _prepare(model, qconfig_mapping, False, prepare_custom_config, backend_config,
                    equalization=_equalization_config)


def prepare_qat_fx(
    model: Any, qconfig_mapping: Any, example_inputs: Any, prepare_custom_config: Any = None,
    backend_config: Any = None,
) -> Any:
    """Return the model in training mode, with weights and activations rounded in training.

    >>> from flambeau.ao.quantization.quantize_fx import prepare_qat_fx
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()).train()
    >>> mapping = torch.ao.quantization.get_default_qat_qconfig_mapping("fbgemm")
    >>> prepare_qat_fx(net, mapping, (torch.ones(1, 2),))(torch.ones(1, 2)).requires_grad
    True
    """
    return _prepare(model, qconfig_mapping, True, prepare_custom_config, backend_config)


def _prepare(
    model: Any, qconfig_mapping: Any, is_qat: bool, prepare_custom_config: Any,
    backend_config: Any, equalization: Any = None,
) -> Any:
    custom = _read(prepare_custom_config, PrepareCustomConfig, "prepare_custom_config")
    mapping = _read(qconfig_mapping, QConfigMapping, "qconfig_mapping")
    backend = _read_backend(backend_config)
    preserved = _collect_attributes(model, custom.preserved_attributes)
    if equalization is not None:
        equalization = _read(equalization, QConfigMapping, "_equalization_config")
    prepared = trace_and_prepare(model, mapping, is_qat, custom, backend,
                                 equalization=equalization)
    return _preserve(prepared, preserved)


def convert_fx(
    graph_module: Any, convert_custom_config: Any = None, _remove_qconfig: bool = True,
    qconfig_mapping: Any = None, backend_config: Any = None,
    keep_original_weights: bool = False,
) -> Any:
    """Convert a prepared model to integers.

    `qconfig_mapping`: the mapping of `prepare_fx`, in which None keeps modules in float32.
    AssertionError for a model that does not come from `prepare_fx`.
    """
    return _convert(graph_module, False, convert_custom_config, _remove_qconfig, qconfig_mapping,
                    backend_config, keep_original_weights)


def convert_to_reference_fx(
    graph_module: Any, convert_custom_config: Any = None, _remove_qconfig: bool = True,
    qconfig_mapping: Any = None, backend_config: Any = None,
) -> Any:
    """Convert a prepared model to float32 with values and weights rounded as by `convert_fx`."""
    return _convert(graph_module, True, convert_custom_config, _remove_qconfig, qconfig_mapping,
                    backend_config)


def _convert_to_reference_decomposed_fx(
    graph_module: Any, convert_custom_config: Any = None, qconfig_mapping: Any = None,
    backend_config: Any = None,
) -> Any:
    """`convert_to_reference_fx` with operators of `torch.ops.quantized_decomposed`."""
    return _convert(graph_module, True, convert_custom_config, False, qconfig_mapping,
                    backend_config, conversion=DecomposedConversion)


def _convert(
    model: Any, is_reference: bool, convert_custom_config: Any, remove_qconfig: bool,
    qconfig_mapping: Any, backend_config: Any, keep_weights: bool = False,
    conversion: Any = None,
) -> Any:
    if not isinstance(model, GraphModule):
        raise ValueError(f"input model must be a GraphModule, Got type:{type(model)} Please make "
                         "sure to follow the tutorials.")
    custom = _read(convert_custom_config, ConvertCustomConfig, "convert_custom_config")
    mapping = _read(qconfig_mapping, QConfigMapping, "qconfig_mapping") \
        if qconfig_mapping else None
    preserved = _collect_attributes(model, custom.preserved_attributes)
    converted = convert(model, is_reference, custom, mapping, _read_backend(backend_config),
                        remove_qconfig, keep_weights, conversion)
    return _preserve(converted, preserved)
