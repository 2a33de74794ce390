"""Quantization of models: each module that has a quantized counterpart is replaced by it."""

from __future__ import annotations

import copy
from typing import Any

from ...native.foundation.user_frames import warn
from ...nn import modules
from ...nn.module import Module
from ...tensor import Tensor
from ...tensor.dtypes import float16, qint8, quint4x2, quint8
from ..nn.intrinsic import _FusedModule
from ..nn.quantized import FloatFunctional
from .fixed_parameters import default_fixed_qparams_range_0to1_observer
from .mappings import (
    QAT, REFERENCE, STATIC, TABLES, get_default_dynamic_quant_module_mappings,
)
from .qconfig import (
    QConfig, default_dynamic_qconfig, float16_dynamic_qconfig, float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)
from .stubs import DeQuantStub, QuantWrapper
from .utils import get_qparam_dict, is_per_channel

_FIXED_RANGE: dict[Any, Any] = {  # activations whose results lie in a known range
    modules.Sigmoid: default_fixed_qparams_range_0to1_observer,
    modules.Softmax: default_fixed_qparams_range_0to1_observer,
}
_TABLES_BY_DTYPE: dict[Any, tuple[Any, ...]] = {quint8: TABLES, quint4x2: TABLES[1:]}
_TRANSPOSED = (modules.ConvTranspose1d, modules.ConvTranspose2d, modules.ConvTranspose3d)
_QUANTIZED_BY_DEFAULT = (modules.Linear, modules.LSTM, modules.GRU, modules.LSTMCell,
                         modules.RNNCell, modules.GRUCell)


def propagate_qconfig_(
    module: Any, qconfig_dict: dict[Any, Any] | None = None,
    prepare_custom_config_dict: Any = None,
) -> None:
    """Give each module the `qconfig` of its path, its class, itself or its parent."""
    _propagate(module, qconfig_dict or {}, None, "")


def _propagate(module: Any, configs: dict[Any, Any], parent: Any, path: str) -> None:
    own = configs.get(type(module), parent)
    own = configs.get(path, own)
    module.qconfig = own = getattr(module, "qconfig", own)
    if own is not None and not isinstance(own, QConfig):
        raise TypeError(f"the qconfig of {path or 'the model'} is a {type(own).__name__}")
    check_qconfig(module, own)
    for name, child in module.named_children():
        _propagate(child, configs, own, f"{path}.{name}" if path else name)


def check_qconfig(module: Any, qconfig: Any) -> None:
    """AssertionError for weights by channel of a transposed convolution, which no kernel has."""
    if qconfig is not None and qconfig.weight is not None and isinstance(module, _TRANSPOSED) \
            and is_per_channel(getattr(qconfig.weight(), "qscheme", None)):
        raise AssertionError(
            "Per channel weight observer is not supported yet for ConvTranspose{n}d.")


def _default_spec(dtype: Any) -> QConfig:
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
    """A copy of the model whose Linear, LSTM, GRU and cells have weights of 8 bits.

    Inputs are quantized by the span of their values as the model computes. `qconfig_spec`: a set
    of classes or paths, or a dict of their QConfigs. `dtype`: `torch.qint8`, or `torch.float16`
    for weights that are rounded to it; of tables `torch.quint8` or, for bags, `torch.quint4x2`.
    ValueError for another dtype.
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
        kinds = _TABLES_BY_DTYPE.get(dtype, _QUANTIZED_BY_DEFAULT)
        qconfig_spec = dict.fromkeys(kinds, _default_spec(dtype))
    elif isinstance(qconfig_spec, set):
        qconfig_spec = dict.fromkeys(qconfig_spec, _default_spec(dtype))
    if mapping is None:
        mapping = get_default_dynamic_quant_module_mappings()
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    convert(model, mapping, inplace=True)
    return model


def _observe_output(self: Any, args: Any, output: Tensor) -> Any:
    return self.activation_post_process(output)


def _check_static(module: Any, path: str) -> None:
    """NotImplementedError for what `convert` has no counterpart of."""
    for name, child in module.named_children():
        where = f"{path}.{name}" if path else name
        if type(child) in STATIC:
            continue
        own = list(child.parameters(recurse=False))
        if own and type(child) not in STATIC and getattr(child, "qconfig", None) is not None:
            error = NotImplementedError(
                f"static quantization of {type(child).__name__} (at '{where}') is not implemented "
                "in flambeau; set its qconfig to None to leave it in float32")
            error.add_note("Batch normalization behind a convolution is folded into it by "
                           "torch.ao.quantization.fuse_modules.")
            raise error
        _check_static(child, where)


def prepare(
    model: Any, inplace: bool = False, allow_list: Any = None,
    observer_non_leaf_module_list: Any = None, prepare_custom_config_dict: Any = None,
) -> Any:
    """A copy of the model that observes activations, to be run on samples and then converted.

    The model has a `qconfig`, and QuantStub and DeQuantStub around its quantized part.
    NotImplementedError where a module with parameters has no quantized counterpart.
    """
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    if not any(getattr(m, "qconfig", None) for m in model.modules()):
        warn("None of the submodule got qconfig applied. Make sure you passed correct "
             "configuration through `qconfig_dict` or by assigning the `.qconfig` attribute "
             "directly on submodules", UserWarning)
    _check_static(model, "")
    allowed = tuple(allow_list) if allow_list is not None else tuple(STATIC)
    _observe(model, allowed)
    return model


def _observe(module: Any, allowed: tuple) -> None:
    """Put observers on the outputs of modules; a fused module is one."""
    if getattr(module, "qconfig", None) is not None and type(module) in allowed:
        if isinstance(module, FloatFunctional):
            module.activation_post_process = module.qconfig.activation()
            return
        if not isinstance(module, (DeQuantStub, *TABLES)):
            observer = _FIXED_RANGE.get(type(module), module.qconfig.activation)()
            module.add_module("activation_post_process", observer)
            module.register_forward_hook(_observe_output, prepend=True)
    if isinstance(module, _FusedModule) or hasattr(module, "weight_fake_quant"):
        return
    for name, child in list(module.named_children()):
        if name != "activation_post_process":
            _observe(child, allowed)


def convert(
    module: Any, mapping: Any = None, inplace: bool = False, remove_qconfig: bool = True,
    is_reference: bool = False, convert_custom_config_dict: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Any:
    """A copy of a prepared model with the quantized counterpart of each of its modules.

    With `is_reference` modules that compute in float32 with weights rounded as the quantized ones.
    """
    if not inplace:
        module = copy.deepcopy(module)
    if mapping is None:
        mapping = REFERENCE if is_reference else STATIC
    _convert(module, mapping)
    if remove_qconfig:
        for child in module.modules():
            if hasattr(child, "qconfig"):
                del child.qconfig
            _stop_observing(child)
    return module


def _convert(module: Any, mapping: Any) -> None:
    for name, child in list(module.named_children()):
        if name == "activation_post_process":
            continue
        if type(child) not in mapping:
            _convert(child, mapping)
        module._modules[name] = swap_module(child, mapping, {})


def swap_module(
    mod: Any, mapping: Any, custom_module_class_mapping: Any,
    use_precomputed_fake_quant: bool = False,
) -> Module:
    """The quantized counterpart of a module that has one and a `qconfig`; else the module."""
    counterpart = mapping.get(type(mod))
    if counterpart is None or getattr(mod, "qconfig", None) is None:
        return mod
    if getattr(counterpart, "_IS_REFERENCE", False):
        result: Any = counterpart.from_float(mod, observe_weights(mod, mod.qconfig))
    else:
        result = counterpart.from_float(mod)
    for hook in mod._forward_pre_hooks.values():
        result.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observe_output:
            result.register_forward_hook(hook)
    return result


def observe_weights(mod: Any, qconfig: Any, observer: Any = None) -> dict[str, Any]:
    """How the weights of a float module are rounded: of one, or by name of several.

    By `observer`, if one trained with the weights, else by new ones of the QConfig.
    """
    def look(weight: Tensor, observer: Any) -> dict[str, Any]:
        observer(weight.detach())
        return get_qparam_dict(observer)

    if hasattr(mod, "weight"):
        return look(mod.weight, qconfig.weight() if observer is None else observer)
    return {name: look(weight, qconfig.weight())
            for name, weight in mod.named_parameters(recurse=False) if name.startswith("weight")}


def _stop_observing(module: Any) -> None:
    if "activation_post_process" in module._modules and not isinstance(module, FloatFunctional):
        del module._modules["activation_post_process"]
    for key, hook in list(module._forward_hooks.items()):
        if hook is _observe_output:
            del module._forward_hooks[key]


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
    """A copy of a model in training mode that rounds weights and activations as it is trained.

    Layers with weights are replaced by those of `torch.ao.nn.qat`; `convert` makes the quantized
    model. AssertionError in eval mode.
    """
    assert model.training, "prepare_qat only works on models in training mode"
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, QAT if mapping is None else mapping, inplace=True, remove_qconfig=False)
    prepare(model, inplace=True)
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


def add_quant_dequant(module: Any) -> Module:
    """Wrap each leaf that has a `qconfig` between a QuantStub and a DeQuantStub."""
    if not list(module.children()) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in list(module.named_children()):
        module._modules[name] = add_quant_dequant(child)
    return module


__all__ = ["add_quant_dequant", "convert", "prepare", "prepare_qat", "propagate_qconfig_",
           "quantize", "quantize_dynamic", "quantize_qat", "swap_module"]
