"""torch.signal.windows: M points, symmetric or, with sym=False, one period of a longer window."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from ... import ops
from ...tensor import dtypes as types
from ...tensor.dtypes import dtype as Dtype
from ...tensor.layout import strided
from ...tensor.tensor import Tensor


def _sample(
    M: int, options: dict[str, Any], start: float, step: float,
    window: Callable[[Tensor], Tensor], single: bool = True,
) -> Tensor:
    """`window` at M points from `start` on, `step` apart; `single` makes a window of 1 point 1.

    All steps round in the window's own dtype, as PyTorch's do.
    """
    if M == 0:
        return ops.empty((0,), **options)
    if M == 1 and single:
        return ops.ones((1,), **options)
    return window(ops.linspace(start, start + (M - 1) * step, M, **options))


def _options(
    name: str, M: int, dtype: Dtype | None, layout: Any, device: Any, requires_grad: bool
) -> dict[str, Any]:
    """The options of the window's tensor, checked."""
    dtype = dtype or types.get_default_dtype()
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (types.float32, types.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return {"dtype": dtype, "device": device, "requires_grad": requires_grad}


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True,
    dtype: Dtype | None = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|n - center| / tau); the center may only be given with sym=False.

    >>> torch.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    options = _options("exponential", M, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if center is None:
        center = (M if not sym and M > 1 else M - 1) / 2
    return _sample(M, options, -center / tau, 1 / tau, lambda k: ops.exp(-k.abs()),
                   single=False)


def cosine(
    M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:
    """sin(pi (n + 0.5) / M).

    >>> torch.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    options = _options("cosine", M, dtype, layout, device, requires_grad)
    step = math.pi / (M + 1 if not sym and M > 1 else max(M, 1))
    return _sample(M, options, step / 2, step, ops.sin, single=False)


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Dtype | None = None,
    layout: Any = strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:
    """exp(-((n - center) / std)^2 / 2).

    >>> torch.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    options = _options("gaussian", M, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    middle, step = (M if not sym and M > 1 else M - 1) / 2, 1 / (std * math.sqrt(2))
    return _sample(M, options, -middle * step, step, lambda k: ops.exp(-(k**2)),
                   single=False)


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Dtype | None = None,
    layout: Any = strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:
    """The Kaiser window, narrower the larger beta is.

    >>> torch.signal.windows.kaiser(3, beta=1.0)
    tensor([0.7898, 1.0000, 0.7898])
    """
    options = _options("kaiser", M, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    shape = ops.tensor(beta, dtype=options["dtype"], device=device)
    step = 2.0 * shape / _intervals(M, sym)
    end = ops.minimum(shape, -shape + (M - 1) * step)

    def window(k: Tensor) -> Tensor:
        return ops.i0(ops.sqrt(shape * shape - k.pow(2))) / ops.i0(shape)

    if M < 2:
        return _sample(M, options, 0, 0, window)
    return window(ops.linspace(-shape, end, M, **options))


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Dtype | None = None,
    layout: Any = strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines with the coefficients a, their signs alternating.

    >>> torch.signal.windows.general_cosine(5, a=[0.5, 0.5])
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _sum_cosines(M, a, sym,
                        _options("general_cosine", M, dtype, layout, device, requires_grad))


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Dtype | None = None,
    layout: Any = strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi n / (M - 1)).

    >>> torch.signal.windows.general_hamming(5)
    tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout,
                          device=device, requires_grad=requires_grad)


def _intervals(M: int, sym: bool) -> int:
    return max(M - 1 if sym else M, 1)


def _sum_cosines(M: int, a: Iterable[float], sym: bool, options: dict[str, Any]) -> Tensor:
    """The sum over i of (-1)^i a_i cos(2 pi i n / (M - 1))."""
    if M > 1 and not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    if M > 1 and not a:
        raise ValueError("Coefficients cannot be empty")

    def window(k: Tensor) -> Tensor:
        signed = [(-1) ** i * weight for i, weight in enumerate(a)]
        weights = ops.tensor(signed, **options).unsqueeze(-1)
        i = ops.arange(len(signed), dtype=options["dtype"], device=options["device"]).unsqueeze(-1)
        return (weights * ops.cos(i * k)).sum(0)

    return _sample(M, options, 0, 2 * math.pi / _intervals(M, sym), window)


def _triangle(M: int, a: Any, sym: bool, options: dict[str, Any]) -> Tensor:
    return _sample(M, options, -1, 2 / _intervals(M, sym), lambda k: 1 - k.abs())


def _fixed(
    name: str, doc: str, shown: str, coefficients: tuple[float, ...] = (),
    build: Callable[..., Tensor] = _sum_cosines, named_in_errors: str = "general_cosine",
) -> Callable[..., Tensor]:
    def function(
        M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = strided,
        device: Any = None, requires_grad: bool = False,
    ) -> Tensor:
        options = _options(named_in_errors, M, dtype, layout, device, requires_grad)
        return build(M, coefficients, sym, options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc}

    `sym=False` leaves out the last of M + 1 points, as a periodic window does.

    >>> torch.signal.windows.{name}(5)[1:4]
    tensor([{shown}])
    """
    return function


hamming = _fixed("hamming", "0.54 - 0.46 cos(2 pi n / (M - 1)).", "0.5400, 1.0000, 0.5400",
                 (0.54, 1.0 - 0.54))
hann = _fixed("hann", "0.5 - 0.5 cos(2 pi n / (M - 1)).", "0.5000, 1.0000, 0.5000", (0.5, 0.5))
blackman = _fixed("blackman", "0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1)).",
                  "0.3400, 1.0000, 0.3400", (0.42, 0.5, 0.08), named_in_errors="blackman")
nuttall = _fixed("nuttall", "Four cosines with low side lobes.", "0.2270, 1.0000, 0.2270",
                 (0.3635819, 0.4891775, 0.1365995, 0.0106411))
bartlett = _fixed("bartlett", "A triangle with zeros at its ends.", "0.5000, 1.0000, 0.5000",
                  build=_triangle, named_in_errors="bartlett")

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
           "general_hamming", "hamming", "hann", "kaiser", "nuttall"]
