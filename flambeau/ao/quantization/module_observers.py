"""Add observers to the outputs of a model's modules, and remove them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...nn import modules
from ...nn.utils.parametrize import type_before_parametrizations
from ..nn.intrinsic import _FusedModule
from ..nn.quantizable import LSTM, MultiheadAttention
from ..nn.quantized import FloatFunctional, QFunctional
from .fake_quantize import FakeQuantizeBase
from .fixed_parameters import (
    default_fixed_qparams_range_0to1_fake_quant, default_fixed_qparams_range_neg1to1_fake_quant,
)
from .observer import ObserverBase
from .qconfig import _activation_is_memoryless
from .stubs import DeQuantStub

__all__ = ["add_observers", "observe_output", "remove_qconfig"]

# Activations with a known range, which training rounds over that range.
_FIXED_RANGE: dict[Any, Any] = {
    modules.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    modules.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    modules.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    modules.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}


def observe_output(module: Any, args: Any, output: Any) -> Any:
    """Forward hook: pass the output through the module's observer."""
    return module.activation_post_process(output)


def observe_input(module: Any, args: Any) -> Any:
    """Forward hook: pass the first input through the module's observer."""
    return module.activation_post_process(args[0])


def add_observers(
    module: Any, observed_types: Collection[Any], non_leaf_types: Collection[Any],
    custom_types: dict[Any, Any],
) -> None:
    """Observe the outputs of submodules that have a `qconfig`.

    observed_types: classes of leaves to observe. non_leaf_types: classes of modules to observe as
    one, with all their parts. custom_types: replace modules of a class by
    `custom_types[class].from_float(module)`, which observes itself.
    """
    for name, child in list(module.named_children()):
        child_class = type_before_parametrizations(child)
        if child_class is modules.Dropout:
            continue
        if issubclass(child_class, (FloatFunctional, QFunctional)):
            if _has_qconfig(child):
                child.activation_post_process = child.qconfig.activation()
        elif isinstance(child, _FusedModule) or child_class in non_leaf_types:
            _observe(child)
        elif child.training and child_class in _FIXED_RANGE:
            _observe(child, _FIXED_RANGE[child_class])
        elif _has_qconfig(child) and child_class in custom_types:
            observed = custom_types[child_class].from_float(child)
            setattr(module, name, observed)
            if not isinstance(observed, (LSTM, MultiheadAttention)):
                _observe(observed)
        else:
            add_observers(child, observed_types, non_leaf_types, custom_types)
    child_class = type_before_parametrizations(module)
    is_leaf = all(name == "parametrizations" for name in module._modules)
    if child_class in observed_types and not isinstance(module, modules.Sequential) \
            and (is_leaf or hasattr(module, "weight_fake_quant")):
        _observe(module)


def _has_qconfig(module: Any) -> bool:
    return getattr(module, "qconfig", None) is not None


def _observe(module: Any, observer: Any = None) -> None:
    """Pass a module's output through its QConfig's observer, or another one; or its input, if the
    observer keeps no state."""
    if not _has_qconfig(module) or isinstance(module, DeQuantStub):
        return
    module.add_module("activation_post_process", (observer or module.qconfig.activation)())
    if _activation_is_memoryless(module.qconfig):
        module.register_forward_pre_hook(observe_input, prepend=True)
    else:
        module.register_forward_hook(observe_output, prepend=True)


def remove_qconfig(module: Any) -> None:
    """Remove the QConfigs and observers of a module and its submodules."""
    for child in module.children():
        remove_qconfig(child)
    if hasattr(module, "qconfig"):
        del module.qconfig
    if isinstance(getattr(module, "activation_post_process", None),
                  (ObserverBase, FakeQuantizeBase)):
        del module.activation_post_process
    for hooks in (module._forward_hooks, module._forward_pre_hooks):
        for key in [key for key, hook in hooks.items() if hook in (observe_output, observe_input)]:
            del hooks[key]
