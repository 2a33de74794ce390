"""aten's operators as PyTorch's files call them: positional, with dtypes and layouts as numbers.

`find_aten_function` returns the public function, or an adapter here if aten's arguments differ.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from ..ops.attention.whole_layers import (
    native_multi_head_attention, transformer_encoder_layer,
)
from ..ops.core.operator import PUBLIC
from ..tensor import dtypes
from ..tensor.devices import device
from ..tensor.dtypes import all_dtypes, dtype
from ..tensor.tensor import Tensor
from .aten_windows import WINDOWS

__all__ = ["find_aten_function", "number_of_dtype", "scalar_type"]

_SCALAR_TYPES = (
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32",
    "complex64", "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16", "quint4x2",
    "quint2x4", "bits1x8", "bits2x4", "bits4x2", "bits8", "bits16", "float8_e5m2",
    "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "uint16", "uint32", "uint64",
)
_LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr",
            "sparse_bsc", "jagged")
_MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
_SPACES = ("aten", "torch", "nn.functional", "special", "linalg", "Tensor")
_PREFIXES = ("special_", "linalg_", "fft_")
# Functions with effects beyond their arguments: files, settings, code.
_REFUSED = frozenset("""
    from_file load save hub compile set_default_dtype set_default_device set_num_threads apply_
    map_ map2_ register_hook numpy from_numpy set_rng_state set_
""".split())


@functools.cache
def _import_torch() -> Any:
    return importlib.import_module(__name__.partition(".")[0])


def _import_functional() -> Any:
    return _import_torch().nn.functional


def scalar_type(value: Any) -> Any:
    """Convert a c10::ScalarType number to its dtype; return other values unchanged."""
    if isinstance(value, int) and not isinstance(value, bool):
        name = _SCALAR_TYPES[value]
        return all_dtypes().get(name) or getattr(dtypes, name)
    return value


def number_of_dtype(value: dtype) -> int:
    """Return a dtype's number in c10::ScalarType."""
    return _SCALAR_TYPES.index(value.name)


def _create_named_conversion(names: tuple[str, ...]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        return getattr(_import_torch(), names[value]) if isinstance(value, int) else value

    return convert


memory_format_of = _create_named_conversion(_MEMORY_FORMATS)
_CONVERT: dict[str, Callable[[Any], Any]] = {
    "dtype": scalar_type, "layout": _create_named_conversion(_LAYOUTS),
    "memory_format": memory_format_of, "out_dtype": scalar_type,
}
# Options to drop if None or False, since not every function here takes them.
_OPTIONAL = frozenset(("dtype", "layout", "device", "pin_memory", "memory_format", "generator",
                       "implicit", "out", "is_coalesced"))


def _accept_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it accepts options in the form that files use."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = {k: _CONVERT[k](v) if k in _CONVERT else v for k, v in kwargs.items()
                      if not (k in _OPTIONAL and (v is None or v is False))}
        return function(*args, **kwargs)

    call.__name__ = getattr(function, "__name__", "operator")
    return call


def find_aten_function(name: str) -> Callable[..., Any] | None:
    """Return the function that computes `aten::name`; None if flambeau lacks the operator."""
    if name in _REFUSED:
        return None
    function = FUNCTIONS.get(name) or _find_public(name)
    if function is None and name.endswith("_copy"):
        function = _find_public(name.removesuffix("_copy"))
    if function is None:
        return None
    return _return_list(function) if name in _LISTS else _accept_options(function)


def _find_public(name: str) -> Callable[..., Any] | None:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            result: Any = PUBLIC[prefix[:-1]].get(name.removeprefix(prefix))
            return result
    for space in _SPACES:
        result = PUBLIC.get(space, {}).get(name)
        if result is not None and callable(result) and not inspect.isclass(result):
            return result
    if name.endswith("_") and not name.endswith("__"):
        return _find_in_place(name)
    return None


def _find_in_place(name: str) -> Callable[..., Any] | None:
    """Return the in-place form of an operator whose public function takes `inplace=True`."""
    function = PUBLIC["nn.functional"].get(name[:-1])
    if function is None or "inplace" not in inspect.signature(function).parameters:
        return None
    return functools.partial(function, inplace=True)


# Operators that return a list in files but a tuple in Python.
_LISTS = frozenset("""
    split chunk unbind split_with_sizes tensor_split hsplit vsplit dsplit meshgrid
    broadcast_tensors nonzero_numpy unsafe_split unsafe_chunk unsafe_split_with_sizes align_tensors
    atleast_1d atleast_2d atleast_3d
""".split())


def _return_list(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that returns a tuple so that it returns a list."""

    def convert_result(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return list(result) if isinstance(result, tuple) else result

    return convert_result


# ------------------------------------------------------ operators with different arguments


def _to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Compute any overload of `to`, dispatching on the types of the first arguments."""
    named = dict(kwargs)
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        named["other"] = rest.pop(0)
    elif rest and (isinstance(rest[0], (device, str)) or
                   (rest[0] is None and len(rest) > 1 and not isinstance(rest[1], bool))):
        named["device"] = rest.pop(0)
        if rest and not isinstance(rest[0], bool):
            named["dtype"] = rest.pop(0)
    elif rest and not isinstance(rest[0], bool):
        named["dtype"] = rest.pop(0)
    named.update(zip(("non_blocking", "copy", "memory_format"), rest, strict=False))
    other = named.pop("other", None)
    kind = scalar_type(named.get("dtype"))
    place = named.get("device")
    if other is not None:
        kind, place = other.dtype, other.device
    options: dict[str, Any] = {"copy": bool(named.get("copy"))}
    if named.get("memory_format") is not None:
        options["memory_format"] = memory_format_of(named["memory_format"])
    return self.to(device=place, dtype=kind, **options)


def _convolution(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
                 transposed: bool, output_padding: Any, groups: int, *settings: Any) -> Any:
    """Convolve as traced modules do; trailing cuDNN settings have no effect."""
    return PUBLIC["torch"]["convolution"](
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _create_softmax(name: str) -> Callable[..., Any]:
    def softmax(self: Any, dim: int, dtype: Any = None) -> Any:
        return PUBLIC["torch"][name](self, dim, dtype=scalar_type(dtype))

    return softmax


def _create_half_to_float(name: str) -> Callable[..., Any]:
    def softmax(self: Any, dim: int, half_to_float: bool = False) -> Any:
        return PUBLIC["torch"][name](self, dim)

    return softmax


def _einsum(equation: str, tensors: Any, *, path: Any = None) -> Any:
    return _import_torch().einsum(equation, *tensors)


def _slice(self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return self[(slice(None),) * (dim % self.dim()) + (slice(start, end, step),)]


def _replace_none(indices: Any) -> tuple:
    """Return indices as Python's: a None of aten selects a whole axis."""
    return tuple(slice(None) if i is None else i for i in indices)


def _index(self: Any, indices: Any) -> Any:
    return self[_replace_none(indices)]


def _index_put(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    return _index_put_(self.clone(), indices, values, accumulate)


def _index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    if not accumulate:
        self[_replace_none(indices)] = values
        return self
    if any(i is None for i in indices):
        raise NotImplementedError("index_put with accumulate and an index that is None")
    return self.index_put_(tuple(indices), values, True)


def _expand(self: Any, *size: Any, implicit: bool = False) -> Any:
    return self.expand(*size)


def _create_upsample(mode: str, aligned: bool) -> Callable[..., Any]:
    """Return `upsample_*` for a mode, to a size or by scale factors."""

    def upsample(input: Any, output_size: Any, *rest: Any, scale_factors: Any = None) -> Any:
        corners = rest[0] if aligned and rest else None
        scales = list(rest[1:] if aligned else rest)
        if scales and isinstance(scales[0], (list, tuple)):
            scale_factors = scales[0]
        target = {"scale_factor": list(scale_factors)} if output_size is None else \
            {"size": list(output_size)}
        return _import_functional().interpolate(input, mode=mode, align_corners=corners, **target)

    return upsample


def _create_average_pool(count: int) -> Callable[..., Any]:
    """Return average pooling over `count` axes; an empty stride means the kernel size."""

    def average_pool(input: Any, kernel_size: Any, stride: Any = None, *rest: Any) -> Any:
        function = PUBLIC["nn.functional"][f"avg_pool{count}d"]
        return function(input, kernel_size, stride or None, *rest)

    return average_pool


def _create_max_pool(count: int, with_indices: bool) -> Callable[..., Any]:
    def max_pool(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
                 dilation: Any = 1, ceil_mode: bool = False) -> Any:
        return PUBLIC["nn.functional"][f"max_pool{count}d"](
            input, kernel_size, stride or None, padding, dilation, ceil_mode, with_indices)

    return max_pool


def _elu(self: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    if scale == 1 and input_scale == 1:
        return PUBLIC["nn.functional"]["elu"](self, alpha)
    positive = self.clamp(min=0)
    negative = (self.clamp(max=0) * input_scale).expm1() * alpha
    return (positive + negative) * scale


def _feature_dropout(input: Any, p: float, train: bool) -> Any:
    """Drop whole channels, with one draw per index of axes 0 and 1."""
    if not train or p == 0:
        return input
    shape = list(input.shape[:2]) + [1] * (input.dim() - 2)
    mask = PUBLIC["torch"]["empty"](shape, dtype=input.dtype).bernoulli_(1 - p)
    return input * (mask / (1 - p)) if p < 1 else input * mask


def _create_in_place_by_copy(name: str) -> Callable[..., Any]:
    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = find_aten_function(name)
        return self.copy_(function(self, *args, **kwargs))  # type: ignore[misc]

    return write


def _get_sizes(self: Any, *dim: int) -> Any:
    return self.shape[dim[0]] if dim else list(self.shape)


def _copy_views(name: str) -> Callable[..., Any]:
    """Return a split that copies its parts. PyTorch's `unsafe_` forms do not track views."""

    def split(self: Any, *args: Any) -> list[Any]:
        return [part.clone() for part in PUBLIC["torch"][name](self, *args)]

    return split


def _warn(message: str, stacklevel: int = 2) -> None:
    warnings.warn(message, stacklevel=stacklevel)


def _accept_dtype(name: str) -> Callable[..., Any]:
    """Wrap an operator whose last argument is a dtype, passed by position or keyword."""

    def convert_dtype(*args: Any, dtype: Any = None) -> Any:
        *rest, kind = args if dtype is None else (*args, dtype)
        return PUBLIC["torch"][name](*rest, scalar_type(kind))

    return convert_dtype


def _create_mode(name: str) -> Callable[..., Any]:
    """Return a function that looks up `torch.name` when it is called."""

    def call_by_name(*args: Any) -> Any:
        return getattr(_import_torch(), name)(*args)

    return call_by_name


def _create_loss(name: str, names: str) -> Callable[..., Any]:
    """Wrap a loss whose reduction is a number. `names`: the parameters in aten's order."""

    def loss(*args: Any, **kwargs: Any) -> Any:
        bound = {**dict(zip(names.split(), args, strict=False)), **kwargs}
        if "reduction" in bound:
            bound["reduction"] = ("none", "mean", "sum")[bound["reduction"]]
        return getattr(_import_functional(), name)(**bound)

    return loss


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "to": _to, "_to_copy": lambda self, **options: _to(self, copy=True, **options),
    "_convolution": _convolution, "softmax": _create_softmax("softmax"),
    "log_softmax": _create_softmax("log_softmax"), "_softmax": _create_half_to_float("softmax"),
    "_log_softmax": _create_half_to_float("log_softmax"), "einsum": _einsum, "slice": _slice,
    "index": _index, "index_put": _index_put, "index_put_": _index_put_,
    "_index_put_impl_": lambda self, i, v, accumulate=False, unsafe=False: _index_put_(
        self, i, v, accumulate),
    "expand": _expand, "elu": _elu, "elu_": _create_in_place_by_copy("elu"),
    "feature_dropout": _feature_dropout,
    "feature_dropout_": _create_in_place_by_copy("feature_dropout"),
    "log_sigmoid": lambda self: PUBLIC["nn.functional"]["logsigmoid"](self),
    "size": _get_sizes, "sym_size": _get_sizes, "dim": lambda self: self.dim(),
    "stride": lambda self, *dim: self.stride(*dim) if dim else list(self.stride()),
    "storage_offset": lambda self: self.storage_offset(), "numel": lambda self: self.numel(),
    "item": lambda self: self.item(), "len": len, "tolist": lambda self: self.tolist(),
    "detach": lambda self: self.detach(), "alias": lambda self: self.view_as(self),
    "lift_fresh": lambda self: self, "lift_fresh_copy": lambda self: self.clone(),
    "_unsafe_view": lambda self, size: self.reshape(size),
    "_reshape_alias": lambda self, size, stride: self.reshape(size),
    "view": lambda self, size: self.view(scalar_type(size)),
    "type_as": lambda self, other: self.type_as(other), "warn": _warn,
    "contiguous": lambda self, *, memory_format=0: self.contiguous(
        memory_format=memory_format_of(memory_format)),
    "is_contiguous": lambda self, *, memory_format=0: self.is_contiguous(
        memory_format=memory_format_of(memory_format)),
    "is_same_size": lambda self, other: self.shape == other.shape,
    "requires_grad_": lambda self, requires_grad=True: self.requires_grad_(requires_grad),
    "backward": lambda self, *args, **kwargs: self.backward(*args, **kwargs),
    "_transformer_encoder_layer_fwd": transformer_encoder_layer,
    "_native_multi_head_attention": native_multi_head_attention,
    **{name: _create_loss("nll_loss", "input target weight reduction ignore_index")
       for name in ("nll_loss", "nll_loss2d", "nll_loss_nd")},
    "cross_entropy_loss": _create_loss(
        "cross_entropy", "input target weight reduction ignore_index label_smoothing"),
    **{name: _create_loss(name, "input target reduction") for name in (
        "mse_loss", "l1_loss", "soft_margin_loss", "multilabel_margin_loss")},
    "smooth_l1_loss": _create_loss("smooth_l1_loss", "input target reduction beta"),
    "huber_loss": _create_loss("huber_loss", "input target reduction delta"),
    "binary_cross_entropy": _create_loss("binary_cross_entropy", "input target weight reduction"),
    "binary_cross_entropy_with_logits": _create_loss(
        "binary_cross_entropy_with_logits", "input target weight pos_weight reduction"),
    "kl_div": _create_loss("kl_div", "input target reduction"),
    "hinge_embedding_loss": _create_loss("hinge_embedding_loss", "input target margin reduction"),
    "poisson_nll_loss": _create_loss(
        "poisson_nll_loss", "input target log_input full eps reduction"
    ),
    "margin_ranking_loss": _create_loss(
        "margin_ranking_loss", "input1 input2 target margin reduction"
    ),
    "cosine_embedding_loss": _create_loss(
        "cosine_embedding_loss", "input1 input2 target margin reduction"),
    "triplet_margin_loss": _create_loss(
        "triplet_margin_loss", "anchor positive negative margin p eps swap reduction"),
    "multi_margin_loss": _create_loss(
        "multi_margin_loss", "input target p margin weight reduction"
    ),
    "unsafe_split": _copy_views("split"), "unsafe_chunk": _copy_views("chunk"),
    "unsafe_split_with_sizes": _copy_views("split"),
    **{f"avg_pool{n}d": _create_average_pool(n) for n in (1, 2, 3)},
    **{f"max_pool{n}d": _create_max_pool(n, False) for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices": _create_max_pool(n, True) for n in (1, 2, 3)},
    **{f"upsample_{name}": _create_upsample(mode, aligned) for name, mode, aligned in (
        ("nearest1d", "nearest", False), ("nearest2d", "nearest", False),
        ("nearest3d", "nearest", False), ("linear1d", "linear", True),
        ("bilinear2d", "bilinear", True), ("bicubic2d", "bicubic", True),
        ("trilinear3d", "trilinear", True))},
    **{name: _create_mode(name) for name in (
        "is_grad_enabled", "set_grad_enabled", "manual_seed", "is_tensor", "is_autocast_enabled",
        "is_autocast_cpu_enabled", "get_num_threads")},
    **{name: _accept_dtype(name) for name in (
        "quantize_per_tensor", "quantize_per_channel")},
    **WINDOWS,
}
# The operators that `a & b` and the like are recorded as.
FUNCTIONS |= {f"__{name}__": PUBLIC["torch"][function] for name, function in {
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"}.items()}
