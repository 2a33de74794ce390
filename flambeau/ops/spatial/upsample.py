"""torch.ops.aten.upsample_*: interpolation with an operator per mode and number of axes.

Each has two overloads: `default` takes a size, and factors that replace the ratios of the sizes;
`vec` takes a size or a list of factors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...tensor.tensor import Tensor
from ..core.registry import composite
from .interpolation import NODES, choose_lengths, resample

_AXES = {1: ("",), 2: ("_h", "_w"), 3: ("_d", "_h", "_w")}


def _read_factors(n: int, scales: tuple, named: dict[str, Any]) -> tuple[Any, bool]:
    """Return a call's factors by axis, or None, and whether it is one of the overload `vec`."""
    if "scale_factors" in named or (scales and isinstance(scales[0], (tuple, list))):
        return (scales[0] if scales else named["scale_factors"]), True
    names = [f"scales{end}" for end in _AXES[n]]
    factors = [*scales, *[named.get(name) for name in names[len(scales):]]]
    return factors, False


def _resize(
    input: Tensor, output_size: Any, align: bool, scales: tuple, named: dict[str, Any], *, n: int,
    mode: str, antialias: bool
) -> Tensor:
    if input._array.ndim != n + 2:
        raise RuntimeError(
            f"It is expected input_size equals to {n + 2}, but got size {input._array.ndim}")
    factors, is_vec = _read_factors(n, scales, named)
    if output_size is None:
        sizes = choose_lengths(input._array.shape[2:], factors)
    else:
        sizes = [int(m) for m in output_size]
        factors = None if is_vec else factors
    return resample(input, sizes, factors, mode, align, antialias)


_DOC = """Resize input (batch, c, {axes}) by mode "{mode}".

    >>> torch.ops.aten.{name}(torch.ones(1, 1{ones}), {size}{corners}).shape
    torch.Size([1, 1{lengths}])
    """


def _declare(name: str, mode: str, n: int, antialias: bool = False) -> None:
    fixed: dict[str, Any] = {"n": n, "mode": mode, "antialias": antialias}
    aligned = not mode.startswith("nearest")
    resize: Callable
    if aligned:
        def resize(input: Tensor, output_size: Any, align_corners: bool, *scales: Any,
                   **named: Any) -> Tensor:
            return _resize(input, output_size, align_corners, scales, named, **fixed)
    else:
        def resize(input: Tensor, output_size: Any, *scales: Any, **named: Any) -> Tensor:
            return _resize(input, output_size, False, scales, named, **fixed)
    resize.__name__ = resize.__qualname__ = name
    resize.__doc__ = _DOC.format(
        axes={1: "length", 2: "h, w", 3: "d, h, w"}[n], mode=mode, name=name, ones=", 2" * n,
        size=[4] * n, corners=", False" if aligned else "", lengths=", 4" * n)
    composite(name=name, expose=("aten",), node=NODES[mode, n, antialias])(resize)


for _n, _linear in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
    _declare(f"upsample_nearest{_n}d", "nearest", _n)
    _declare(f"_upsample_nearest_exact{_n}d", "nearest-exact", _n)
    _declare(f"upsample_{_linear}{_n}d", _linear, _n)
_declare("upsample_bicubic2d", "bicubic", 2)
_declare("_upsample_bilinear2d_aa", "bilinear", 2, antialias=True)
_declare("_upsample_bicubic2d_aa", "bicubic", 2, antialias=True)
