"""Quantize models in eager mode: replace each module that has a quantized counterpart."""

from __future__ import annotations

import copy
import inspect
from typing import Any

from ...native.foundation.user_frames import warn
from ...nn import modules
from ...nn.module import Module
from ...nn.utils.parametrize import type_before_parametrizations
from ...tensor import Tensor
from ...tensor.dtypes import float16, qint8, quint4x2, quint8
from ..nn import quantizable, quantized
from ..nn.intrinsic import _FusedModule
from ..nn.quantizable.steps import Steps
from .module_observers import add_observers, observe_output, remove_qconfig as drop_qconfig
from .qconfig import (
    QConfig, default_dynamic_qconfig, float16_dynamic_qconfig, float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)
from .quantization_mappings import (
    QAT, REFERENCE, STATIC, TABLES, get_default_dynamic_quant_module_mappings,
    get_default_qconfig_propagation_list,
)
from .stubs import QuantWrapper
from .utils import get_qparam_dict, is_per_channel

_TABLES_BY_DTYPE: dict[Any, tuple[Any, ...]] = {quint8: TABLES, quint4x2: TABLES[1:]}
_TRANSPOSED = (modules.ConvTranspose1d, modules.ConvTranspose2d, modules.ConvTranspose3d)
_QUANTIZED_BY_DEFAULT = (modules.Linear, modules.LSTM, modules.GRU, modules.LSTMCell,
                         modules.RNNCell, modules.GRUCell)


def get_default_custom_config_dict() -> dict[str, dict[Any, Any]]:
    """The modules that `prepare` and `convert` replace as a whole: LSTM, MultiheadAttention."""
    names = ("LSTM", "MultiheadAttention")
    return {
        "float_to_observed_custom_module_class": {
            getattr(modules, name): getattr(quantizable, name) for name in names},
        "observed_to_quantized_custom_module_class": {
            getattr(quantizable, name): getattr(quantized, name) for name in names},
    }


def propagate_qconfig_(
    module: Any, qconfig_dict: dict[Any, Any] | None = None,
    prepare_custom_config_dict: Any = None,
) -> None:
    """Set each module's `qconfig` from its path, its class, itself or its parent.

    Modules listed in `non_traceable_module_name` or `non_traceable_module_class` get none.
    """
    _propagate(module, qconfig_dict or {}, None, "", prepare_custom_config_dict or {})


def _propagate(module: Any, configs: dict[Any, Any], parent: Any, path: str, custom: Any) -> None:
    qconfig = configs.get(type_before_parametrizations(module), parent)
    qconfig = configs.get(path, qconfig)
    module.qconfig = qconfig = getattr(module, "qconfig", qconfig)
    check_qconfig(module, qconfig)
    for name, child in module.named_children():
        if name not in custom.get("non_traceable_module_name", ()) \
                and type(child) not in custom.get("non_traceable_module_class", ()):
            _propagate(child, configs, qconfig, f"{path}.{name}" if path else name, {})


def check_qconfig(module: Any, qconfig: Any) -> None:
    """Raise AssertionError for per-channel weights of a transposed convolution (no kernel)."""
    if qconfig is not None and qconfig.weight is not None and isinstance(module, _TRANSPOSED) \
            and is_per_channel(getattr(qconfig.weight(), "qscheme", None)):
        raise AssertionError(
            "Per channel weight observer is not supported yet for ConvTranspose{n}d.")


def _choose_default_spec(dtype: Any) -> QConfig:
    if dtype is qint8:
        return default_dynamic_qconfig
    if dtype is float16:
        return float16_dynamic_qconfig
    if dtype is quint8:
        return float_qparams_weight_only_qconfig
    if dtype is quint4x2:
        return float_qparams_weight_only_qconfig_4bit
    raise ValueError(f"Don't know how to quantize with default settings for {dtype}. Provide full "
                     "qconfig please")


def quantize_dynamic(
    model: Any, qconfig_spec: Any = None, dtype: Any = qint8, mapping: Any = None,
    inplace: bool = False,
) -> Any:
    """Return a copy of the model whose Linear, LSTM, GRU and cell layers have 8-bit weights.

    Inputs are quantized at run time by the range of their values. `qconfig_spec`: a set of classes
    or paths, or a dict of their QConfigs. `dtype`: `torch.qint8`, or `torch.float16` to round
    weights to it; for embeddings `torch.quint8` or, for bags, `torch.quint4x2`. ValueError for
    another dtype.
    https://pytorch.org/docs/stable/generated/torch.ao.quantization.quantize_dynamic.html

    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    >>> torch.ao.quantization.quantize_dynamic(model)
    Sequential(
      (0): DynamicQuantizedLinear(in_features=4, out_features=8, dtype=torch.qint8, \
qscheme=torch.per_tensor_affine)
      (1): ReLU()
    )
    """
    if qconfig_spec is None:
        module_classes = _TABLES_BY_DTYPE.get(dtype, _QUANTIZED_BY_DEFAULT)
        qconfig_spec = dict.fromkeys(module_classes, _choose_default_spec(dtype))
    elif isinstance(qconfig_spec, set):
        qconfig_spec = dict.fromkeys(qconfig_spec, _choose_default_spec(dtype))
    if mapping is None:
        mapping = get_default_dynamic_quant_module_mappings()
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    convert(model, mapping, inplace=True)
    return model


def prepare(
    model: Any, inplace: bool = False, allow_list: Any = None,
    observer_non_leaf_module_list: Any = None, prepare_custom_config_dict: Any = None,
) -> Any:
    """Return a copy of the model that observes activations; run it on samples, then convert it.

    The model has a `qconfig`, and QuantStub and DeQuantStub around its quantized part.

    Args:
        allow_list: Classes of modules whose outputs are observed; None: all that `convert`
            replaces.
        observer_non_leaf_module_list: Classes of non-leaf modules that are observed as one.
        prepare_custom_config_dict: `float_to_observed_custom_module_class` maps classes to those
            whose `from_float` makes a module that observes itself; by default LSTM and
            MultiheadAttention to those of `torch.ao.nn.quantizable`.
    """
    custom = get_default_custom_config_dict() if prepare_custom_config_dict is None \
        else prepare_custom_config_dict
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    if not any(getattr(m, "qconfig", None) for m in model.modules()):
        warn("None of the submodule got qconfig applied. Make sure you passed correct "
             "configuration through `qconfig_dict` or by assigning the `.qconfig` attribute "
             "directly on submodules", UserWarning)
    observed = get_default_qconfig_propagation_list() if allow_list is None else allow_list
    add_observers(model, observed, observer_non_leaf_module_list or (),
                  custom.get("float_to_observed_custom_module_class", {}))
    return model


def convert(
    module: Any, mapping: Any = None, inplace: bool = False, remove_qconfig: bool = True,
    is_reference: bool = False, convert_custom_config_dict: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Any:
    """Return a copy of a prepared model with each module replaced by its quantized counterpart.

    Args:
        is_reference: Convert to modules that compute in float32 with rounded weights.
        convert_custom_config_dict: `observed_to_quantized_custom_module_class` maps classes to
            those whose `from_observed` makes the quantized module.
        use_precomputed_fake_quant: Round weights with the observers from training.
    """
    if not inplace:
        module = copy.deepcopy(module)
    if mapping is None:
        mapping = REFERENCE if is_reference else STATIC
    custom = get_default_custom_config_dict() if convert_custom_config_dict is None \
        else convert_custom_config_dict
    _convert(module, mapping, custom.get("observed_to_quantized_custom_module_class", {}),
             use_precomputed_fake_quant)
    if remove_qconfig:
        drop_qconfig(module)
    return module


def _convert(module: Any, mapping: Any, custom: Any, precomputed: bool) -> None:
    replaced = {}
    for name, child in module.named_children():
        if not isinstance(child, _FusedModule) and type_before_parametrizations(child) \
                not in custom:
            _convert(child, mapping, custom, precomputed)
        replaced[name] = swap_module(child, mapping, custom, precomputed)
    module._modules.update(replaced)


def swap_module(
    mod: Any, mapping: Any, custom_module_class_mapping: Any,
    use_precomputed_fake_quant: bool = False,
) -> Module:
    """Return a module's quantized counterpart if it has one and a `qconfig`, else the module."""
    module_class = type_before_parametrizations(mod)
    if getattr(mod, "qconfig", None) is None:
        return mod
    counterpart: Any = mapping.get(module_class)
    if module_class in custom_module_class_mapping:
        result: Any = custom_module_class_mapping[module_class].from_observed(mod)
    elif counterpart is None:
        return mod
    elif getattr(counterpart, "_IS_REFERENCE", False):
        result = counterpart.from_float(mod, observe_weights(mod, mod.qconfig))
    elif "use_precomputed_fake_quant" in inspect.signature(counterpart.from_float).parameters:
        result = counterpart.from_float(
            mod, use_precomputed_fake_quant=use_precomputed_fake_quant)
    else:
        result = counterpart.from_float(mod)
    for hook in mod._forward_pre_hooks.values():
        result.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not observe_output:
            result.register_forward_hook(hook)
    return result


def observe_weights(mod: Any, qconfig: Any, observer: Any = None) -> dict[str, Any]:
    """Return the quantization parameters of a float module's weight, or of several by name.

    Uses `observer`, if one was trained with the weights, else new ones from the QConfig.
    """
    def look(weight: Tensor, observer: Any) -> dict[str, Any]:
        observer(weight.detach())
        return get_qparam_dict(observer)

    if hasattr(mod, "weight"):
        return look(mod.weight, qconfig.weight() if observer is None else observer)
    return {name: look(weight, qconfig.weight())
            for name, weight in mod.named_parameters(recurse=False) if name.startswith("weight")}


def quantize(
    model: Any, run_fn: Any, run_args: Any, mapping: Any = None, inplace: bool = False
) -> Any:
    """Prepare a model, run `run_fn(model, *run_args)` on samples, and convert it."""
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, mapping, inplace=True)
    return model


def prepare_qat(model: Any, mapping: Any = None, inplace: bool = False) -> Any:
    """Return a copy of a model in training mode that rounds weights and activations in training.

    Layers with weights are replaced by those of `torch.ao.nn.qat`; `convert` creates the quantized
    model. AssertionError in eval mode.
    """
    assert model.training, "prepare_qat only works on models in training mode"
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    mapping = QAT if mapping is None else mapping
    convert(model, mapping, inplace=True, remove_qconfig=False)
    prepare(model, observer_non_leaf_module_list=set(mapping.values()), inplace=True)
    return model


def quantize_qat(model: Any, run_fn: Any, run_args: Any, inplace: bool = False) -> Any:
    """Prepare a model for training, run `run_fn(model, *run_args)`, and convert it."""
    if not inplace:
        model = copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, inplace=True)
    return model


def _get_observer_dict(mod: Any, target_dict: dict[str, Any], prefix: str = "") -> None:
    """Add the observers of a module and its submodules to a dictionary, by path."""
    for path, module in mod.named_modules():
        if hasattr(module, "activation_post_process"):
            names = [name for name in (prefix, path, "activation_post_process") if name]
            target_dict[".".join(names)] = module.activation_post_process


def add_quant_dequant(module: Any) -> Module:
    """Wrap each leaf that has a `qconfig` between a QuantStub and a DeQuantStub."""
    if not list(module.children()) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in list(module.named_children()):
        module._modules[name] = add_quant_dequant(child)
    return module


Steps.prepare, Steps.prepare_qat, Steps.convert = prepare, prepare_qat, convert

__all__ = ["add_quant_dequant", "convert", "get_default_custom_config_dict", "prepare",
           "prepare_qat", "propagate_qconfig_", "quantize", "quantize_dynamic", "quantize_qat",
           "swap_module"]
