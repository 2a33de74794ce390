"""torch.ao.quantization.utils: an observer's results as a dictionary."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from ...nn.module import Module
from ...tensor.absent import make_absent_getattr
from ...tensor.dtypes import QuantizedDtype, float16
from ...tensor.quantizers import (
    per_channel_affine, per_channel_affine_float_qparams, per_channel_symmetric,
    per_tensor_affine, per_tensor_symmetric,
)
from .observer import PlaceholderObserver
from .quant_type import QuantType

__getattr__ = make_absent_getattr(__name__)


class MatchAllNode:
    """In patterns of graphs: any value."""


def getattr_from_fqn(obj: Any, fqn: str) -> Any:
    """Return the attribute at a dotted path.

    >>> model = nn.Sequential(nn.Linear(2, 3))
    >>> torch.ao.quantization.utils.getattr_from_fqn(model, "0.weight").shape
    torch.Size([3, 2])
    """
    return functools.reduce(getattr, fqn.split("."), obj)


def is_per_tensor(qscheme: Any) -> bool:
    """Whether there is one scale for all elements."""
    return qscheme in (per_tensor_affine, per_tensor_symmetric)


def is_per_channel(qscheme: Any) -> bool:
    """Whether there is a scale for each place along an axis."""
    return qscheme in (
        per_channel_affine, per_channel_symmetric, per_channel_affine_float_qparams)


def get_qparam_dict(observer_or_fake_quant: Any) -> dict[str, Any]:
    """Scheme, dtype, scale, zero point and range that an observer has found.

    >>> from flambeau.ao.quantization import MinMaxObserver
    >>> observer = MinMaxObserver()
    >>> y = observer(torch.tensor([0., 255.]))
    >>> torch.ao.quantization.utils.get_qparam_dict(observer)["scale"]
    tensor([1.])
    """
    observer = observer_or_fake_quant
    scheme = getattr(observer, "qscheme", None)
    if not scheme or isinstance(observer, PlaceholderObserver):
        return {"qscheme": None, "dtype": observer.dtype}
    result: dict[str, Any] = {"qscheme": per_tensor_affine, "dtype": observer.dtype}
    if is_per_channel(scheme):
        affine = per_channel_affine if scheme is per_channel_symmetric else scheme
        result |= {"qscheme": affine, "axis": observer.ch_axis}
    elif not is_per_tensor(scheme):
        raise RuntimeError(f"Unrecognized qscheme: {scheme}")
    result["scale"], result["zero_point"] = observer.calculate_qparams()
    for name in ("quant_min", "quant_max"):
        if hasattr(observer, name):
            result[name] = getattr(observer, name)
    return result


def get_qconfig_dtypes(qconfig: Any) -> tuple[Any, Any, bool]:
    """The dtypes of activations and weights, and whether activations are quantized dynamically.

    >>> from flambeau.ao.quantization import default_dynamic_qconfig, utils
    >>> utils.get_qconfig_dtypes(default_dynamic_qconfig)
    (torch.quint8, torch.qint8, True)
    """
    activation, weight = qconfig.activation(), qconfig.weight()
    return activation.dtype, weight.dtype, bool(getattr(activation, "is_dynamic", False))


def activation_is_statically_quantized(qconfig: Any) -> bool:
    """Whether activations are rounded by scales that are known before."""
    activation, _, is_dynamic = get_qconfig_dtypes(qconfig)
    return not is_dynamic and (isinstance(activation, QuantizedDtype) or activation is float16)


def weight_is_quantized(qconfig: Any) -> bool:
    """Whether weights are rounded."""
    weight = qconfig.weight().dtype
    return isinstance(weight, QuantizedDtype) or weight is float16


def get_quant_type(qconfig: Any) -> QuantType:
    """When activations are quantized; Exception for dtypes that do not go together."""
    activation, weight, is_dynamic = get_qconfig_dtypes(qconfig)
    if isinstance(weight, QuantizedDtype):
        if is_dynamic:
            return QuantType.DYNAMIC
        integers = isinstance(activation, QuantizedDtype)
        return QuantType.STATIC if integers else QuantType.WEIGHT_ONLY
    if weight is float16 and is_dynamic:
        return QuantType.DYNAMIC
    if weight is float16 and activation is float16:
        return QuantType.STATIC
    raise Exception("Unrecognized dtype combination in get_quant_type: activation"
                    f"({activation}),weight({weight})")


def get_fqn_to_example_inputs(
    model: Module, example_inputs: tuple[Any, ...]
) -> dict[str, tuple[Any, ...]]:
    """Return the arguments of each module's call, by path, with defaults filled in.

    >>> from flambeau.ao.quantization import utils
    >>> model = nn.Sequential(nn.Linear(2, 3))
    >>> inputs = utils.get_fqn_to_example_inputs(model, (torch.ones(1, 2),))
    >>> {path: len(args) for path, args in inputs.items()}
    {'': 1, '0': 1}
    """
    result: dict[str, tuple[Any, ...]] = {}
    paths = {id(module): path for path, module in reversed(list(model.named_modules()))}

    def record(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        call = inspect.signature(module.forward).bind(*args, **kwargs)
        call.apply_defaults()
        result[paths[id(module)]] = (*call.args, *call.kwargs.values())

    handles = [module.register_forward_pre_hook(record, with_kwargs=True)
               for module in model.modules()]
    try:
        model(*example_inputs)
    finally:
        for handle in handles:
            handle.remove()
    return result
