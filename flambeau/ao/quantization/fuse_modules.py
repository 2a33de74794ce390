"""fuse_modules: fuse a convolution with the batch normalization and ReLU after it.

In eval mode the normalization is folded into the weights; for training it stays, fused.
"""

from __future__ import annotations

import copy
from typing import Any

from ...nn import modules
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from ..nn import intrinsic

_CONVOLUTIONS = (modules.Conv1d, modules.Conv2d, modules.Conv3d)
_TRANSPOSED = (modules.ConvTranspose1d, modules.ConvTranspose2d, modules.ConvTranspose3d)
_NORMS = (modules.BatchNorm1d, modules.BatchNorm2d, modules.BatchNorm3d)
_RANK = dict(zip((*_CONVOLUTIONS, *_NORMS), (1, 2, 3) * 2, strict=True))


def fuse_sequence(parts: list[Any], is_qat: bool) -> Any:
    """Fuse a sequence of two or three modules; AssertionError for other sequences."""
    classes = tuple(map(type, parts))
    first, later_classes = classes[0], classes[1:]
    if later_classes == (modules.ReLU,):
        if first in _CONVOLUTIONS:
            return getattr(intrinsic, f"ConvReLU{_RANK[first]}d")(*parts)
        if first is modules.Linear:
            return intrinsic.LinearReLU(*parts)
        if first in _NORMS[1:]:
            return getattr(intrinsic, f"BNReLU{_RANK[first]}d")(*parts)
    if later_classes[:1] and later_classes[0] in _NORMS and later_classes[1:] in ((),
                                                                                  (modules.ReLU,)):
        if len({module.training for module in parts}) != 1:
            raise AssertionError("Conv and BN both must be in the same mode (train or eval).")
        if first is modules.Linear and not later_classes[1:]:
            return (intrinsic.LinearBn1d if is_qat else fuse_linear_bn_eval)(*parts)
        if first in _CONVOLUTIONS:
            return _fuse_norm(parts, _RANK[first], is_qat)
        if first in _TRANSPOSED and not later_classes[1:]:
            if is_qat:
                raise Exception("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
            return fuse_conv_bn_eval(parts[0], parts[1], True)
    raise AssertionError(f"did not find fuser method for: {classes} ")


def _fuse_norm(parts: list[Any], rank: int, is_qat: bool) -> Any:
    relu = "ReLU" if len(parts) == 3 else ""
    if is_qat:
        _check_trained_norm(*parts[:2])
        return getattr(intrinsic, f"ConvBn{relu}{rank}d")(*parts)
    folded = fuse_conv_bn_eval(parts[0], parts[1])
    return getattr(intrinsic, f"ConvReLU{rank}d")(folded, parts[2]) if relu else folded


def _check_trained_norm(conv: Any, norm: Any) -> None:
    """Raise AssertionError for a normalization that cannot be trained with the weights."""
    if norm.num_features != conv.out_channels:
        raise AssertionError("Output channel of Conv2d must match num_features of BatchNorm2d.")
    if not norm.affine:
        raise AssertionError("Only support fusing BatchNorm2d with affine set to True")
    if not norm.track_running_stats:
        raise AssertionError(
            "Only support fusing BatchNorm2d with tracking_running_stats set to True")


def _find_parent(model: Any, path: str) -> tuple[Any, str]:
    *ancestors, name = path.split(".")
    for child_name in ancestors:
        model = model._modules[child_name]
    return model, name


def fuse_known_modules(
    mod_list: list[Any], is_qat: bool, additional_fuser_method_mapping: Any = None
) -> list[Any]:
    """Return the fused module, which takes over the hooks at the ends of the sequence, and an
    identity for each of the others.

    additional_fuser_method_mapping: functions of `is_qat` and the modules, by the modules' classes.
    """
    hooks = [list(mod_list[0]._forward_pre_hooks.values()),
             list(mod_list[-1]._forward_hooks.values())]
    for module in (mod_list[0], mod_list[-1]):
        module._forward_pre_hooks.clear()
        module._forward_hooks.clear()
    classes = tuple(map(type, mod_list))
    methods = additional_fuser_method_mapping or {}
    method = methods.get(classes) or (methods.get(classes[0]) if len(classes) == 1 else None)
    fused = fuse_sequence(mod_list, is_qat) if method is None else method(is_qat, *mod_list)
    for hook in hooks[0]:
        fused.register_forward_pre_hook(hook)
    for hook in hooks[1]:
        fused.register_forward_hook(hook)
    result = [fused, *(modules.Identity() for _ in mod_list[1:])]
    for module in result:
        module.training = mod_list[0].training
    return result


def _fuse_all(
    model: Any, modules_to_fuse: Any, inplace: bool, is_qat: bool, fuser: Any, settings: Any
) -> Any:
    if not inplace:
        model = copy.deepcopy(model)
    fuse, methods = fuser or fuse_known_modules, \
        (settings or {}).get("additional_fuser_method_mapping", {})
    single = all(isinstance(name, str) for name in modules_to_fuse)
    for names in [modules_to_fuse] if single else modules_to_fuse:
        targets = [_find_parent(model, name) for name in names]
        chain = [parent._modules[name] for parent, name in targets]
        for (parent, name), module in zip(targets, fuse(chain, is_qat, methods), strict=False):
            parent._modules[name] = module
    return model


def fuse_modules(
    model: Any, modules_to_fuse: Any, inplace: bool = False, fuser_func: Any = None,
    fuse_custom_config_dict: Any = None,
) -> Any:
    """Return a copy of the model with each named list of modules fused into one.

    The first module of a list becomes the fused one, the others identities. Requires eval mode.

    fuser_func: a function to call in place of `fuse_known_modules`. fuse_custom_config_dict: may
    hold "additional_fuser_method_mapping", which is passed to it.

    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()).eval()
    >>> torch.ao.quantization.fuse_modules(net, ["0", "1"])[1]
    Identity()
    """
    return _fuse_all(model, modules_to_fuse, inplace, False, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model: Any, modules_to_fuse: Any, inplace: bool = False, fuser_func: Any = None,
    fuse_custom_config_dict: Any = None,
) -> Any:
    """`fuse_modules` for a model in training mode: batch normalization stays trainable."""
    return _fuse_all(model, modules_to_fuse, inplace, True, fuser_func, fuse_custom_config_dict)
