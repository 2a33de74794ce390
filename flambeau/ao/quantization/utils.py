"""torch.ao.quantization.utils: what an observer has found, as a dictionary."""

from __future__ import annotations

from typing import Any

from ...tensor.absent import lacking
from ...tensor.quantizers import (
    per_channel_affine, per_channel_affine_float_qparams, per_channel_symmetric,
    per_tensor_affine, per_tensor_symmetric,
)
from .observer import PlaceholderObserver

__getattr__ = lacking(__name__)


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
