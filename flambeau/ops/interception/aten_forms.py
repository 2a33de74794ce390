"""Operators' calls as PyTorch writes them: the overloads and arguments that handlers of
`__torch_dispatch__` receive.

An operator whose arguments fit a schema of aten goes by that schema; FORMS rewrites the others that
PyTorch has under another name or with other arguments. What is left is called by a name that
PyTorch lacks, and runs the operator itself.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from ...tensor.layout import contiguous_format
from ...tensor.size import Size
from ...tensor.tensor import Tensor
from ..core.aten import Packet, aten
from ..core.operator import OPERATORS, PUBLIC, Operator
from ..registration.aten_schemas import find_overload, get_schemas
from ..registration.schema import Argument
from .dispatched.index import SPLIT
from .dispatched.linear import dispatch_linear, dispatch_rows_product

__all__ = ["FORMS", "match_schema", "own_packet", "seal"]

Call = Callable[..., Any]

_LIST = re.compile(r"\w+\??\[(\d*)\]\??")


def match_schema(
    name: str, first: str, args: tuple, kwargs: dict[str, Any]
) -> tuple[str, tuple, dict[str, Any]] | None:
    """Return the overload of aten that a call fits, with its arguments as PyTorch passes them.

    `first` is the overload to prefer. Numbers become lists where the schema has lists, keywords
    positions, and trailing defaults are left out. None if no overload fits.
    """
    schema = find_overload(name, args, kwargs, first)
    if schema is None:
        return None
    positional = [a for a in schema.arguments if not a.kwarg_only]
    values = dict(zip([a.name for a in positional], args, strict=False)) | kwargs
    values = {
        a.name: _convert_to_list(a, values.get(a.name, a.default_value)) for a in schema.arguments
    }
    while positional and _is_default(positional[-1], values[positional[-1].name]):
        positional.pop()
    options = {a.name: values[a.name] for a in schema.arguments
               if a.kwarg_only and not _is_default(a, values[a.name])}
    return schema.overload_name or "default", tuple([values[a.name] for a in positional]), options


def _convert_to_list(argument: Argument, value: Any) -> Any:
    """Return a list where the argument's type is a list and the value a tuple or a number."""
    match = _LIST.fullmatch(argument.kind)
    if match is None or value is None or isinstance(value, list):
        return value
    return list(value) if isinstance(value, tuple) else [value] * int(match[1] or 1)


def _is_default(argument: Argument, value: Any) -> bool:
    if argument.required or isinstance(value, Tensor):
        return False
    return value is argument.default_value or (
        value.__class__ in (int, float, bool, list) and value == argument.default_value)


def own_packet(operator: Operator) -> Packet:
    """Return a packet that runs the operator itself, by a name that aten does not have."""
    known = get_schemas(operator.name) or operator.name in PUBLIC["aten"]
    packet = getattr(aten, f"{operator.name}_operator" if known else operator.name)
    packet.own = functools.partial(_run_unsealed, operator.function)
    return packet


class Sealed:
    """An argument that only the operator reads, such as a window: handlers that map over tuples
    must not take it apart."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def seal(value: Any) -> Any:
    """Return a named tuple, or a tuple of such, as one object."""
    is_named = isinstance(value, tuple) and value.__class__ not in (tuple, Size)
    if is_named or value.__class__ is tuple and any(seal(v) is not v for v in value):
        return Sealed(value)
    return value


def _run_unsealed(function: Call, *args: Any, **kwargs: Any) -> Any:
    return function(*[a.value if a.__class__ is Sealed else a for a in args], **kwargs)


# ------------------------------------------------------------------ operators with other arguments


def _create_normalized(name: str) -> Call:
    def form(call: Call, x: Tensor, dim: int, dtype: Any) -> Any:
        if dtype is not None and dtype is not x.dtype:
            x = call(aten._to_copy.default, (x,), {"dtype": dtype})
        return call(getattr(aten, name).default, (x, dim, False))

    return form


def _create_normalized_backward(name: str) -> Call:
    """A form that names the input's dtype, which the operator leaves out if it is g's."""
    def form(call: Call, g: Tensor, y: Tensor, dim: int, dtype: Any) -> Any:
        return call(getattr(aten, name).default, (g, y, dim, g.dtype if dtype is None else dtype))

    return form


def _convolution(
    call: Call, x: Tensor, weight: Tensor, bias: Any, window: Any, groups: int
) -> Any:
    if any(low != high for low, high in window.padding):
        return NotImplemented
    padding = [low for low, _ in window.padding]
    settings = list(window.stride), padding, list(window.dilation), False, [0] * len(padding)
    return call(aten.convolution.default, (x, weight, bias, *settings, groups))


def _drop_default_tail(settings: list, defaults: list) -> list:
    """Return the settings up to the last that differs from its default."""
    while settings and settings[-1] == defaults[len(settings) - 1]:
        settings.pop()
    return settings


def _create_max_pool_form(n: int) -> Call:
    def form(call: Call, x: Tensor, window: Any) -> Any:
        kernel, padding = list(window.kernel), [low for low, _ in window.padding]
        ceil = any(high > low for low, high in window.padding)
        settings = [list(window.stride), padding, list(window.dilation), ceil]
        rest = _drop_default_tail(settings, [kernel, [0] * n, [1] * n, False])
        function = getattr(aten, f"max_pool{n}d_with_indices").default
        return call(function, (x, kernel, *rest))[0]

    return form


def _create_avg_pool_form(n: int) -> Call:
    def form(call: Call, x: Tensor, average: Any) -> Any:
        window, padding = average.window, list(average.pads)
        kernel = list(window.kernel)
        ceil = any(high > low for low, high in window.padding)
        settings = [list(window.stride), padding, ceil, average.count_include_pad, average.divisor]
        rest = _drop_default_tail(settings, [kernel, [0] * n, False, True, None])
        return call(getattr(aten, f"avg_pool{n}d").default, (x, kernel, *rest))

    return form


def _nll_loss(
    call: Call, x: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int
) -> Any:
    function = aten.nll_loss2d_forward if x.dim() == 4 else aten.nll_loss_forward
    return call(function.default, (x, target, weight, reduction, ignore_index))[0]


def _cross_entropy(
    call: Call, x: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int
) -> Any:
    """The loss and the log probabilities; PyTorch has two operators for them."""
    if x.dim() not in (1, 2, 4):
        return NotImplemented
    y = call(aten._log_softmax.default, (x, int(x.dim() > 1), False))
    return _nll_loss(call, y, target, weight, reduction, ignore_index), y


def _mse_loss(call: Call, x: Tensor, target: Tensor, reduction: int, beta: float) -> Any:
    if beta:
        return NotImplemented
    return call(aten.mse_loss.default, (x, target, *(() if reduction == 1 else (reduction,))))


def _create_division(mode: str) -> Call:
    def form(call: Call, x: Any, other: Any) -> Any:
        if not isinstance(x, Tensor):
            return NotImplemented
        return call(aten.div.Tensor_mode, (x, other), {"rounding_mode": mode})

    return form


def _create_reduction(name: str) -> Call:
    """A form of a reduction along an axis, which PyTorch has as the overload `dim`."""
    def form(call: Call, x: Tensor, dim: int, keepdim: bool) -> Any:
        return call(getattr(aten, name).dim, (x, dim, *((True,) if keepdim else ())))

    return form


def _sort(call: Call, x: Tensor, dim: int, descending: bool, stable: bool) -> Any:
    if stable:
        options = {"stable": True} | ({} if dim == -1 else {"dim": dim})
        return call(aten.sort.stable, (x,), options | ({"descending": True} if descending else {}))
    rest = (dim, True) if descending else () if dim == -1 else (dim,)
    return call(aten.sort.default, (x, *rest))


def _split_sizes(call: Call, x: Tensor, sizes: Any, dim: int) -> Any:
    """Parts of one size, the last one possibly smaller, are `split`, others `split_with_sizes`."""
    if sizes.__class__ is int:
        return call(aten.split.Tensor, (x, sizes, *((dim,) if dim else ())))
    return call(aten.split_with_sizes.default, (x, list(sizes), *((dim,) if dim else ())))


def _copy_as_size(call: Call, x: Tensor, size: Any) -> Any:
    copy = call(aten.clone.default, (x,), {"memory_format": contiguous_format})
    return call(aten._unsafe_view.default, (copy, list(size)))


def _squeeze(call: Call, x: Tensor, dims: Any) -> Any:
    if len(dims) == 1:
        return call(aten.squeeze.dim, (x, dims[0]))
    return call(aten.squeeze.dims, (x, list(dims)))


FORMS: dict[str, Call] = {
    **SPLIT, "linear": dispatch_linear, "_rows_product": dispatch_rows_product,
    "softmax": _create_normalized("_softmax"), "log_softmax": _create_normalized("_log_softmax"),
    **{name: _create_normalized_backward(name)
       for name in ("_softmax_backward_data", "_log_softmax_backward_data")},
    "_convolution": _convolution, "_nll_loss": _nll_loss, "_nll_loss2d": _nll_loss,
    "_cross_entropy": _cross_entropy, "_cross_entropy2d": _cross_entropy,
    "_mse_loss": _mse_loss, "_div_floor": _create_division("floor"),
    "_div_trunc": _create_division("trunc"),
    "_max_dim": _create_reduction("max"), "_min_dim": _create_reduction("min"),
    "_median_dim": _create_reduction("median"),
    "_sort": _sort, "_split_sizes": _split_sizes, "squeeze_dims": _squeeze,
    "_unsafe_view": _copy_as_size,
    **{f"_max_pool{n}d": _create_max_pool_form(n) for n in (2, 3)},
    **{f"_avg_pool{n}d": _create_avg_pool_form(n) for n in (2, 3)},
    "_adaptive_avg_pool2d": lambda call, x, size: call(
        aten._adaptive_avg_pool2d.default, (x, list(size))),
}


# ------------------------------------------- aten's functions that differ from public ones


def _nll_loss_forward(
    self: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """Return the loss, and the sum of the weights that the mean divides by."""
    operator = OPERATORS["_nll_loss" if self.dim() < 3 else "_nll_loss2d"].function
    loss = operator(self, target, weight, reduction, ignore_index)
    if reduction != 1:
        return loss, self.new_zeros(())
    counted = target != ignore_index
    total = counted.sum() if weight is None else weight[target[counted]].sum()
    return loss, total.to(self.dtype)


def _elu(self: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    y: Tensor = OPERATORS["_elu"].function(self, alpha, scale, input_scale)
    return y


def _cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: Any = None) -> Tensor:
    y: Tensor = OPERATORS["_cdist"].function(x1, x2, p, compute_mode or 0)
    return y


def _create_max_pool(n: int) -> Call:
    def operator(self: Tensor, output_size: Any) -> Any:
        return PUBLIC["nn.functional"][f"adaptive_max_pool{n}d"](self, output_size, True)

    return operator


def _to_copy(self: Tensor, **options: Any) -> Tensor:
    """Copy the tensor in another dtype or memory format; CPU memory is never pinned."""
    ignored = {"pin_memory"} | ({"layout"} if options.get("layout") is self.layout else set())
    options = {name: value for name, value in options.items()
               if value is not None and name not in ignored}
    y: Tensor = self.to(**options, copy=True)
    return y


_REDUCTIONS = "none", "mean", "sum"


def _create_loss(function: Call, inputs: int, names: str) -> Call:
    """Return a loss whose reduction is a number, 1 (the mean) by default, as in aten's schema.

    `inputs`: how many tensors it compares; `names`: its other parameters, in the schema's order.
    """
    parameters = names.split()

    def operator(*args: Any, **kwargs: Any) -> Any:
        options = dict(zip(parameters, args[inputs:], strict=False)) | kwargs
        options["reduction"] = _REDUCTIONS[options.get("reduction", 1)]
        return function(*args[:inputs], **options)

    return operator


# The losses whose public function has another order of parameters, or another default.
_LOSSES = {
    "mse_loss": (2, "reduction"), "l1_loss": (2, "reduction"),
    "smooth_l1_loss": (2, "reduction beta"), "huber_loss": (2, "reduction delta"),
    "soft_margin_loss": (2, "reduction"), "multilabel_margin_loss": (2, "reduction"),
    "multi_margin_loss": (2, "p margin weight reduction"), "kl_div": (2, "reduction log_target"),
    "binary_cross_entropy": (2, "weight reduction"),
    "binary_cross_entropy_with_logits": (2, "weight pos_weight reduction"),
    "nll_loss": (2, "weight reduction ignore_index"),
    "hinge_embedding_loss": (2, "margin reduction"),
    "cosine_embedding_loss": (3, "margin reduction"),
    "margin_ranking_loss": (3, "margin reduction"),
    "triplet_margin_loss": (3, "margin p eps swap reduction"),
}

PUBLIC.setdefault("aten", {}).update(
    nll_loss_forward=_nll_loss_forward, nll_loss2d_forward=_nll_loss_forward, elu=_elu,
    cdist=_cdist, unfold=lambda self, dimension, size, step: self.unfold(dimension, size, step),
    _to_copy=_to_copy,
    **{name: _create_loss(PUBLIC["nn.functional"][name], *rest) for name, rest in _LOSSES.items()},
    **{f"adaptive_max_pool{n}d": _create_max_pool(n) for n in (2, 3)},
)
