"""torch.signal.windows: M points, symmetric or, with sym=False, one period of a longer window."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...ops.creation.creation import place
from ...ops.fft.window_functions import cosine_sum
from ...ops.fft.window_functions import kaiser as kaiser_points
from ...ops.fft.window_functions import triangle
from ...tensor import dtypes as types
from ...tensor.dtypes import dtype as Dtype
from ...tensor.layout import strided
from ...tensor.tensor import Tensor

Points = Callable[[int], np.ndarray]


def _build(name: str, M: int, sym: bool, points: Points, options: dict[str, Any]) -> Tensor:
    dtype = options["dtype"] or types.get_default_dtype()
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if options["layout"] is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: "
                         f"{options['layout']}")
    if dtype not in (types.float32, types.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if M < 2 and name not in ("exponential", "gaussian"):
        array = np.ones(M)
    else:
        array = points(M) if sym else points(M + 1)[:M]
    return place(array.astype(dtype.numpy), options["device"], options["requires_grad"])


def _options(dtype: Any, layout: Any, device: Any, requires_grad: bool) -> dict[str, Any]:
    return {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True,
    dtype: Dtype | None = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|n - center| / tau); the centre may only be given with sym=False.

    >>> torch.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = ((M if not sym and M > 1 else M - 1) / 2) if center is None else center
    return _build("exponential", M, sym, lambda n: np.exp(-np.abs(np.arange(n) - middle) / tau),
                 _options(dtype, layout, device, requires_grad))


def cosine(
    M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:
    """sin(pi (n + 0.5) / M).

    >>> torch.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    return _build("cosine", M, sym, lambda n: np.sin(np.pi * (np.arange(n) + 0.5) / n),
                 _options(dtype, layout, device, requires_grad))


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Dtype | None = None,
    layout: Any = strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:
    """exp(-((n - centre) / std)^2 / 2).

    >>> torch.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    middle = (M if not sym and M > 1 else M - 1) / 2
    return _build("gaussian", M, sym, lambda n: np.exp(-(((np.arange(n) - middle) / std) ** 2) / 2),
                 _options(dtype, layout, device, requires_grad))


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Dtype | None = None,
    layout: Any = strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:
    """The Kaiser window, narrower the larger beta is.

    >>> torch.signal.windows.kaiser(3, beta=1.0)
    tensor([0.7898, 1.0000, 0.7898])
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _build("kaiser", M, sym, lambda n: kaiser_points(n, beta),
                 _options(dtype, layout, device, requires_grad))


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Dtype | None = None,
    layout: Any = strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines with the coefficients a, their signs alternating.

    >>> torch.signal.windows.general_cosine(5, a=[0.5, 0.5])
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    coefficients = tuple(a)
    if not coefficients:
        raise ValueError("Coefficients cannot be empty")
    return _build("general_cosine", M, sym, lambda n: cosine_sum(n, coefficients),
                 _options(dtype, layout, device, requires_grad))


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


def _fixed(
    name: str, points: Points, doc: str, shown: str, cosines: bool = True
) -> Callable[..., Tensor]:
    def function(
        M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = strided,
        device: Any = None, requires_grad: bool = False,
    ) -> Tensor:
        options = _options(dtype, layout, device, requires_grad)
        return _build("general_cosine" if cosines else name, M, sym, points, options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc}

    `sym=False` leaves out the last of M + 1 points, as a periodic window does.

    >>> torch.signal.windows.{name}(5)[1:4]
    tensor([{shown}])
    """
    return function


hamming = _fixed("hamming", lambda n: cosine_sum(n, (0.54, 0.46)),
                 "0.54 - 0.46 cos(2 pi n / (M - 1)).", "0.5400, 1.0000, 0.5400")
hann = _fixed("hann", lambda n: cosine_sum(n, (0.5, 0.5)), "0.5 - 0.5 cos(2 pi n / (M - 1)).",
              "0.5000, 1.0000, 0.5000")
blackman = _fixed("blackman", lambda n: cosine_sum(n, (0.42, 0.5, 0.08)),
                  "0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1)).",
                  "0.3400, 1.0000, 0.3400")
nuttall = _fixed("nuttall", lambda n: cosine_sum(n, (0.3635819, 0.4891775, 0.1365995, 0.0106411)),
                 "Four cosines with low side lobes.", "0.2270, 1.0000, 0.2270")
bartlett = _fixed("bartlett", triangle, "A triangle with zeros at its ends.",
                  "0.5000, 1.0000, 0.5000", False)

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
           "general_hamming", "hamming", "hann", "kaiser", "nuttall"]
