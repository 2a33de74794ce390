"""linear and the gradient of its weight as the products that `__torch_dispatch__` receives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....tensor.layout import contiguous_format
from ....tensor.tensor import Tensor
from ...core.aten import aten

Call = Callable[..., Any]


def dispatch_linear(call: Call, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """Call what PyTorch composes linear of: t, then addmm or mm on rows that are one axis.

    NotImplemented for a weight that is no matrix, and for rows that cannot become one axis.
    """
    rank = input.dim()
    is_flat = rank == 2
    if weight.dim() != 2 or rank == 0 or not (is_flat or input.is_contiguous()):
        return NotImplemented
    shape = [*input.shape[:-1], weight.shape[0]]
    rows = [math.prod(input.shape[:-1]), input.shape[-1]]
    if bias is not None and bias.dim() == 1:
        x = input if is_flat else call(aten.view.default, (input, rows))
        transposed = call(aten.t.default, (weight,))
        y = call(aten.addmm.default, (bias, x, transposed))
        return y if is_flat else call(aten.view.default, (y, shape))
    if bias is not None:
        return NotImplemented
    transposed = call(aten.t.default, (weight,))
    if rank == 1:
        x = call(aten.unsqueeze.default, (input, 0))
        y = call(aten.mm.default, (x, transposed))
        return call(aten.squeeze_.dim, (y, 0))
    x = input if is_flat else call(aten.view.default, (input, rows))
    y = call(aten.mm.default, (x, transposed))
    return y if is_flat else call(aten._unsafe_view.default, (y, shape))


def dispatch_rows_product(call: Call, input: Tensor, other: Tensor) -> Any:
    """Call mm of the transposed input and `other`, whose leading axes become one.

    NotImplemented for vectors.
    """
    if input.dim() < 2:
        return NotImplemented
    x, y = (t if t.dim() == 2 else _flatten_rows(call, t) for t in (input, other))
    return call(aten.mm.default, (call(aten.t.default, (x,)), y))


def _flatten_rows(call: Call, x: Tensor) -> Any:
    """Call what PyTorch composes reshape to a matrix of: view, or clone and _unsafe_view."""
    rows = [math.prod(x.shape[:-1]), x.shape[-1]]
    if x.is_contiguous():
        return call(aten.view.default, (x, rows))
    copy = call(aten.clone.default, (x,), {"memory_format": contiguous_format})
    return call(aten._unsafe_view.default, (copy, rows))
