"""Translation of public calls to aten operators: names, overloads and arguments."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..fx.qualified_names import method_name, qualified_name
from ..ops.core.aten import aten, look_up
from ..ops.core.operator import PUBLIC
from ..ops.interception.aten_forms import match_schema
from ..ops.registration.aten_schemas import get_schemas
from ..tensor.devices import get_default_device
from ..tensor.tensor import Tensor, wrap

__all__ = ["ATEN_FORMS", "OVERLOADS", "StepResult", "decompose_call", "decompose_getitem",
           "decompose_setitem"]

OVERLOADS = {
    "add": "Tensor", "sub": "Tensor", "mul": "Tensor", "div": "Tensor", "softmax": "int",
    "log_softmax": "int", "transpose": "int", "select": "int", "slice": "Tensor",
    "split": "Tensor", "index": "Tensor", "unbind": "int", "lstm": "input", "gru": "input",
    "rnn_tanh": "input", "rnn_relu": "input", "sym_size": "int", "rsub": "Scalar",
    "masked_fill": "Scalar", "flatten": "using_ints", "repeat_interleave": "self_int",
    "std": "correction", "var": "correction", "norm": "ScalarOpt_dim",
}
_COMPARE = frozenset("eq ne lt le gt ge remainder floor_divide bitwise_and bitwise_or".split())
_DIMS = {"mean": "dim", "sum": "dim_IntList", "max": "dim", "min": "dim", "all": "dim",
         "any": "dim", "prod": "dim_int", "squeeze": "dim"}
# Python's operators on tensors, and what computes them.
_OPERATORS = {"__pow__": "pow", "__rsub__": "rsub", "__floordiv__": "floor_divide",
              "__and__": "bitwise_and", "__or__": "bitwise_or", "__eq__": "eq",
              "__xor__": "bitwise_xor", "__mod__": "remainder"}


def _find_overload(name: str, args: list[Any]) -> Any:
    packet = getattr(aten, name)
    tensors = [isinstance(a, Tensor) for a in args[:2]]
    bare = name.rstrip("_")
    if bare == "pow":
        kind = "Tensor_Tensor" if all(tensors) else "Tensor_Scalar" if tensors[0] else "Scalar"
    elif bare in _COMPARE:
        kind = "Tensor" if all(tensors) else "Scalar"
    elif bare in _DIMS:
        kind = _DIMS[bare] if len(args) > 1 and args[1] is not None else "default"
        kind = "other" if len(tensors) > 1 and tensors[1] and bare in ("max", "min") else kind
    else:
        kind = OVERLOADS.get(bare, "default")
    return getattr(packet, kind)


def _expand_pair(value: Any, count: int) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value] * count


# ------------------------------------- functions whose aten operators take other arguments

Form = Callable[..., tuple[str, list[Any], dict[str, Any]]]


def _batch_norm(input: Any, running_mean: Any, running_var: Any, weight: Any = None,
                bias: Any = None, training: Any = False, momentum: Any = 0.1,
                eps: Any = 1e-5) -> Any:
    return "batch_norm", [input, weight, bias, running_mean, running_var, training, momentum, eps,
                          False], {}


def _embedding(input: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None,
               norm_type: Any = 2.0, scale_grad_by_freq: Any = False, sparse: Any = False,
               ) -> Any:
    if max_norm is not None:
        return None
    return "embedding", [weight, input] + ([] if padding_idx is None else [padding_idx]), {}


def _convert_activation(name: str, options: int) -> Form:
    """Return the form of an activation with `options` numbers before `inplace`."""

    def form(input: Any, *args: Any, inplace: bool = False) -> Any:
        inplace = args[options] if len(args) > options else inplace
        args = args[:options]
        return f"{name}_" if inplace else name, [input, *args], {}

    return form


def _softmax(name: str) -> Form:
    def form(input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
        if dim is None:
            return None
        return name, [input, dim] + ([] if dtype is None else [dtype]), {}

    return form


def _max_pool(count: int) -> Form:
    def form(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
             ceil_mode: bool = False, return_indices: bool = False) -> Any:
        if return_indices:
            return None
        kernel = _expand_pair(kernel_size, count)
        step = [] if stride is None or stride == [] else _expand_pair(stride, count)
        return f"max_pool{count}d", [input, kernel, step, _expand_pair(padding, count),
                                     _expand_pair(dilation, count), ceil_mode], {}

    return form


def _convert_adaptive_pool(count: int) -> Form:
    def form(input: Any, output_size: Any) -> Any:
        sizes = _expand_pair(output_size, count)
        if None in sizes:
            return None
        return f"adaptive_avg_pool{count}d", [input, sizes], {}

    return form


def _dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    return None if inplace else ("dropout", [input, p, training], {})


def _layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None,
                eps: float = 1e-5) -> Any:
    return "layer_norm", [input, list(normalized_shape), weight, bias, eps], {}


def _convert_varying(name: str) -> Form:
    """Return the form of a method that takes a shape as a sequence or as separate numbers."""

    def form(self: Any, *sizes: Any, **kwargs: Any) -> Any:
        if kwargs:
            return None
        if name in ("view",) and len(sizes) == 1 and not isinstance(sizes[0], (int, tuple, list)):
            return None  # a dtype
        flat = list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) \
            else list(sizes)
        return name, [self, flat], {}

    return form


def _rdiv(self: Any, other: Any) -> Any:
    return [("reciprocal", [self], {}), ("mul", [..., other], {})]


def _convert_new(name: str) -> Form:
    """Return the form of new_*: a tensor that takes only dtype and device from the old one."""

    def form(self: Any, size: Any, *more: Any, dtype: Any = None, device: Any = None,
             requires_grad: bool = False) -> Any:
        sizes = list(size) if isinstance(size, (tuple, list)) else [size, *more]
        return name, [sizes], {"dtype": dtype or self.dtype, "device": device or self.device}

    return form


def _convert_factory(name: str) -> Form:
    """Return the form of a factory function, with the size as one list."""

    def form(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
             **options: Any) -> Any:
        if options or requires_grad or not size:
            return None
        sizes = list(size[0]) if isinstance(size[0], (tuple, list)) else list(size)
        words = {} if dtype is None else {"dtype": dtype}
        place = get_default_device() if device is None else device
        return name, [sizes], words | {"device": place, "pin_memory": False}

    return form


def _convert_transpose(self: Any) -> Any:
    order = list(range(self.ndim))[::-1]
    return "permute", [self, order], {}


ATEN_FORMS: dict[str, Any] = {
    "torch.nn.functional.batch_norm": _batch_norm, "torch.nn.functional.embedding": _embedding,
    "torch.nn.functional.dropout": _dropout, "torch.nn.functional.layer_norm": _layer_norm,
    **{f"torch.nn.functional.{n}": _convert_activation(n, count)
       for count, names in enumerate(("relu silu hardswish hardsigmoid mish relu6 selu",
                                      "elu leaky_relu", "hardtanh")) for n in names.split()},
    **{f"torch.nn.functional.{n}": _softmax(n) for n in ("softmax", "log_softmax")},
    **{f"torch.nn.functional.max_pool{n}d": _max_pool(n) for n in (1, 2, 3)},
    **{f"torch.nn.functional.adaptive_avg_pool{n}d": _convert_adaptive_pool(n) for n in (2, 3)},
    **{f"{space}.{n}": _convert_varying(n)
       for n in ("view", "reshape", "permute", "expand", "repeat", "flip")
       for space in ("torch", "torch.Tensor")},
    "torch.Tensor.__rdiv__": _rdiv, "T": _convert_transpose,
    **{f"torch.{n}": _convert_factory(n) for n in ("zeros", "ones", "empty", "rand", "randn")},
    "torch.Tensor.new_zeros": _convert_new("zeros"), "torch.Tensor.new_ones": _convert_new("ones"),
}


def decompose_call(
    function: Any, args: tuple, kwargs: dict[str, Any]
) -> list[tuple[Any, list, dict]]:
    """Return the steps that compute a public call: operators with their arguments.

    An ellipsis among the arguments stands for the previous step's result. A function without an
    aten counterpart is a step unchanged.
    """
    path = function if isinstance(function, str) else qualified_name(function)
    form = ATEN_FORMS.get(path)
    if form is not None:
        try:
            new = form(*args, **kwargs)
        except TypeError:
            new = None
        if new is not None:
            steps = new if isinstance(new, list) else [new]
            return [_fit_schema(_find_overload(name, a), a, k) for name, a, k in steps]
    if isinstance(function, str):
        raise NotImplementedError(f"torch.export: the attribute {function} of a tensor")
    name = path.rpartition(".")[2]
    name = _OPERATORS.get(name, name) if path.startswith("torch.Tensor.") else name
    if path.startswith("torch.nn.functional."):
        return [(function, list(args), kwargs)]
    result = look_up(name)
    same = (
        result is function or method_name(function) is not None
        or PUBLIC["torch"].get(name) is function or path.startswith("torch._C._nn")
    )
    if result is None or not same or name.startswith("__"):
        return [(function, list(args), kwargs)]
    return [_fit_schema(_find_overload(name, list(args)), list(args), kwargs)]


def _fit_schema(function: Any, args: list, kwargs: dict[str, Any]) -> tuple[Any, list, dict]:
    """Return a call of aten as PyTorch writes it: lists for sizes and axes, positions for keywords,
    no trailing defaults. A call that fits no schema remains as it is."""
    name, first = function.overloadpacket.__name__, function._overloadname
    schema = get_schemas(name).get(first)
    kinds = [] if schema is None else [a.kind for a in schema.arguments]
    probe = wrap(np.empty(0))  # for a number among the tensors, and for the previous step's result
    values = [probe if a is ... or kinds[i : i + 1] == ["Tensor"] and isinstance(a, (int, float))
              else a for i, a in enumerate(args)]
    matched = match_schema(name, first, tuple(values), kwargs)
    if matched is None:
        return function, args, kwargs
    overload, fitted, options = matched
    positional = [args[i] if i < len(args) and values[i] is probe else v
                  for i, v in enumerate(fitted)]
    names = [a.name for a in get_schemas(name)[overload].arguments][: len(positional)]
    count = max(len(args), _count_shared_positions(name, tuple(names)))
    options |= {n: v for n, v in zip(names[count:], positional[count:], strict=True) if n in kwargs}
    return getattr(getattr(aten, name), overload), positional[:count], options


@functools.cache
def _count_shared_positions(name: str, names: tuple[str, ...]) -> int:
    """Return how many of aten's arguments the public function has in the same positions."""
    function: Any = look_up(name)
    own = [p.name for p in inspect.signature(function).parameters.values()
           if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    pairs = itertools.zip_longest(names[1:], own[1:])
    return 1 + next((i for i, (a, b) in enumerate(pairs) if a != b), len(names) - 1)


def decompose_getitem(self: Any, item: Any) -> list[tuple[Any, list, dict]] | None:
    """Return `self[item]` as select, slice, unsqueeze and index; None if they cannot express it."""
    items = _list_index_items(self.ndim, item)
    if items is None:
        return None
    steps: list[tuple[Any, list, dict]] = []
    tensors: list[Any] = []
    dim = 0
    for i in items:
        if isinstance(i, Tensor):
            tensors += [None] * (dim - len(tensors)) + [i]
            dim += _count_indexed_axes(i)
            continue
        if i != slice(None):
            view, arguments = _choose_view(i)
            steps.append((view, [... if steps else self, dim, *arguments], {}))
        dim += not isinstance(i, int)
    if tensors:
        steps.append((aten.index.Tensor, [... if steps else self, tensors], {}))
    return steps or [(aten.alias.default, [self], {})]


class StepResult(NamedTuple):
    """Stands for the result of an earlier step."""

    number: int


def decompose_setitem(self: Any, item: Any, value: Any) -> list[tuple[Any, list, dict]] | None:
    """Return `self[item] = value` as views and a write to the last; None if aten cannot express it.
    """
    steps = decompose_getitem(self, item)
    is_number = isinstance(value, (int, float, complex))
    if steps is None or not is_number and not isinstance(value, Tensor):
        return None
    if steps[0][0] is aten.alias.default:
        steps = []
    indices = steps.pop()[1][1] if steps and steps[-1][0] is aten.index.Tensor else None
    steps = [(view, [StepResult(n - 1) if a is ... else a for a in args], kwargs)
             for n, (view, args, kwargs) in enumerate(steps)]
    place: Any = StepResult(len(steps) - 1) if steps else self
    ndim = self.ndim + sum({aten.unsqueeze.default: 1, aten.select.int: -1}.get(view, 0)
                           for view, *_ in steps)
    if indices is None and not is_number and value.ndim > ndim:
        return None
    if indices is None:
        write = aten.fill_.Scalar if is_number else aten.copy_.default
        return [*steps, (write, [place, value], {})]
    if is_number:
        steps.append((aten.scalar_tensor.default, [value], {"dtype": self.dtype}))
        value = StepResult(len(steps) - 1)
    elif value.dtype != self.dtype or value.ndim > 1 and value.shape[0] == 1:
        return None  # the value is cast, or may have more axes than the place
    return [*steps, (aten.index_put_.default, [place, indices, value], {})]


def _list_index_items(ndim: int, item: Any) -> list[Any] | None:
    """Return an index's items with lists as tensors and the ellipsis expanded; None for other
    kinds of items."""
    items = list(item) if isinstance(item, tuple) else [item]
    known = (int, slice, type(None), type(...), Tensor, list)
    if not all(isinstance(i, known) for i in items) or any(isinstance(i, bool) for i in items):
        return None
    make: Any = PUBLIC["torch"]["tensor"]
    items = [make(i) if isinstance(i, list) and i else i for i in items]
    if any(isinstance(i, list) for i in items):
        return None
    ellipsis = next((n for n, i in enumerate(items) if i is ...), None)
    if ellipsis is not None:
        consumed = sum(_count_indexed_axes(i) for i in items if i is not None and i is not ...)
        items[ellipsis : ellipsis + 1] = [slice(None)] * (ndim - consumed)
    return items


def _count_indexed_axes(item: Any) -> int:
    """Return how many axes an item indexes: a mask as many as it has."""
    is_mask = isinstance(item, Tensor) and str(item.dtype) == "torch.bool"
    return item.ndim if is_mask else 1


def _choose_view(item: int | slice | None) -> tuple[Any, list[Any]]:
    """Return the operator of an item, and its arguments after the axis."""
    if item is None:
        return aten.unsqueeze.default, []
    if isinstance(item, int):
        return aten.select.int, [item]
    stop = 2**63 - 1 if item.stop is None else item.stop
    return aten.slice.Tensor, [0 if item.start is None else item.start, stop,
                               *([] if item.step is None else [item.step])]
