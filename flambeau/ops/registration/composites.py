"""The composites whose inner calls profiles show, as PyTorch 2.13 makes them.

A function chooses where the calls depend on the arguments or the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...tensor.tensor import Tensor

__all__ = ["COMPOSITES", "STAND_INS", "WRAPPED"]

Choose = Callable[[tuple, Any], str]

_VIEW = "as_strided(0)"
_EMPTY_LIKE = "empty_like*(0)[empty_strided*(size, stride)]"
_TO_COPY = "_to_copy*({0}, dtype)[empty_strided*(size, stride) copy_(y, {0})]"
_TRANSPOSED = "t({0})[transpose({0}, =0, =1)[as_strided({0})]]"
# Operators that take a number in place of their second tensor, which PyTorch wraps in one.
WRAPPED = frozenset(
    f"{name}{end}" for name in ("add", "sub", "mul", "div", "true_divide") for end in ("", "_"))

# Operators of flambeau's own that compute what PyTorch computes by another.
STAND_INS = {"_rows_product": "mm"}


def _convert_number(args: tuple, y: Any) -> str:
    """The operand's number is converted unless it has the result's dtype."""
    number = args[1] if len(args) > 1 else None
    if isinstance(number, Tensor) or number is None or not isinstance(y, Tensor):
        return ""
    is_same = isinstance(number, float) and y.dtype.itemsize == 8 and y.is_floating_point() \
        or isinstance(number, int) and not isinstance(number, bool) and y.dtype.itemsize == 8 \
        and not y.is_floating_point()
    return "" if is_same else \
        "to.dtype(1, dtype)[_to_copy(1, dtype)[empty_strided(size, stride) copy_(1, 1)]]"


def _power(args: tuple, y: Any) -> str:
    is_number = len(args) > 1 and not isinstance(args[1], Tensor)
    return "result_type.Scalar(0, 1) to.dtype(0, dtype)" if is_number else ""


def _rank(value: Any) -> int:
    return int(value.ndim) if isinstance(value, Tensor) else 2


def _product(args: tuple, y: Any) -> str:
    """The product chosen by the operands' ranks."""
    a, b = (_rank(x) for x in (*args, None, None)[:2])
    if a == b == 1:
        return "dot*(0, 1)"
    if (a, b) == (2, 1):
        return "mv*(0, 1)"
    kind = "mm" if b <= 2 else "bmm"
    return f"{kind}*(0, 1)[* resolve_conj(y) resolve_conj(1) resolve_conj(0)]"


def _linear(args: tuple, y: Any) -> str:
    bias = args[2] if len(args) > 2 else None
    product = "mm*(0, 1t)[* resolve_conj(y) resolve_conj(0)]"
    if bias is None:
        return f"{_TRANSPOSED.format(1)} matmul*(0, 1t)[{product}]"
    if _rank(args[0]) != 2:
        return f"{_TRANSPOSED.format(1)} addmm*(2, 0, 1t)[* copy_(y, 2)]"
    return (f"{_TRANSPOSED.format(1)} addmm*(2, 0, 1t)"
            "[* expand(2)[as_strided(2)] copy_(y, 2) resolve_conj(y) resolve_conj(0)]")


def _is_copy(x: Any, y: Any) -> bool:
    return isinstance(x, Tensor) and isinstance(y, Tensor) and y is not x \
        and not (y._is_view() and y.dtype is x.dtype)


def _convert(args: tuple, y: Any) -> str:
    return _TO_COPY.format(0) if args and _is_copy(args[0], y) else ""


def _reshape(args: tuple, y: Any) -> str:
    return "view(0, size)" if args and not _is_copy(args[0], y) else \
        "clone*(0)[empty_like*(0)[empty.memory_format*(size)] copy_(y, 0)] _unsafe_view(y, size)"


def _mean(args: tuple, y: Any) -> str:
    return "* sum(0)[as_strided(y) fill_(y, =0.0)] div_(y, =1)"


def _create(fill: str) -> str:
    return f"empty.memory_format*(size) {fill}"


def _create_like(fill: str) -> str:
    return f"{_EMPTY_LIKE} {fill}"


_UNIFORM, _NORMAL = "uniform_(y, =0.0, =1.0)", "normal_(y, =0.0, =1.0)"
_CONVOLUTION = "convolution*(0, 1, 2)[_convolution*(0, 1, 2)[mkldnn_convolution*(0, 1, 2)]]"

COMPOSITES: dict[str, str | Choose] = {
    "zeros": _create("zero_(y)"), "ones": _create("fill_(y, =1.0)"), "full": _create("fill_(y, 1)"),
    "rand": _create(_UNIFORM), "randn": _create(_NORMAL), "randint": _create("random_(y)"),
    "eye": _create("eye(0)"), "arange": _create("arange(0)"),
    "linspace": _create("linspace(0, 1, 2)"), "logspace": _create("logspace(0, 1, 2)"),
    "randperm": _create("randperm(0)"),
    "empty_like": "empty_strided*(size, stride)", "zeros_like": _create_like("zero_(y)"),
    "ones_like": _create_like("fill_(y, =1.0)"), "full_like": _create_like("fill_(y, 1)"),
    "rand_like": _create_like(_UNIFORM), "randn_like": _create_like(_NORMAL),
    "randint_like": _create_like("random_(y)"),
    "clone": "empty_strided*(size, stride) copy_(y, 0)", "to": _convert,
    "_to_copy": "empty_strided*(size, stride) copy_(y, 0)",
    "t": "transpose(0, =0, =1)[as_strided(0)]",
    **dict.fromkeys(("transpose", "permute", "select", "slice", "unsqueeze", "squeeze", "expand"),
                    _VIEW),
    "narrow": "slice(0)[as_strided(0)]", "view_as": "view(0, size)", "reshape": _reshape,
    "flatten": _reshape, "expand_as": "expand(0, size)[as_strided(0)]", "detach": ":detach(0)",
    "stack": "cat*(0, 1) view(y, size)",
    **dict.fromkeys(WRAPPED, _convert_number), "pow": _power,
    "relu": "clamp_min*(0, =0)", "relu_": "clamp_min_(0, =0)",
    "softmax": "_softmax*(0, 1)", "log_softmax": "_log_softmax*(0, 1)",
    "sum": "* as_strided(y) fill_(y, =0.0)", "mean": _mean,
    "addmm": "* expand(0)[as_strided(0)] copy_(y, 0) resolve_conj(y) resolve_conj(1)",
    "mm": "* resolve_conj(y) resolve_conj(1) resolve_conj(0)",
    "bmm": "* resolve_conj(1) resolve_conj(0)", "matmul": _product, "linear": _linear,
    "conv1d": _CONVOLUTION, "conv2d": _CONVOLUTION, "conv3d": _CONVOLUTION,
    "max_pool2d": "max_pool2d_with_indices*(0)", "layer_norm": "native_layer_norm*(0, 1, 2, 3)",
    "group_norm": "native_group_norm*(0)",
    "batch_norm": "_batch_norm_impl_index*(0)[native_batch_norm*(0)]",
    "cross_entropy_loss": "log_softmax(0)[_log_softmax(0)] "
                          "nll_loss_nd*(0, 1)[nll_loss*(0, 1)[nll_loss_forward*(0, 1)]]",
    "embedding": "index_select*(0, =0, 1)",
}
