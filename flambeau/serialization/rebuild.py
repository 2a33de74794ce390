"""Rebuild tensors from their description in a file, and reduce them for pickling.

The functions have the names used in files (`torch._utils._rebuild_tensor_v2`, ...). They validate
their arguments: a view must lie inside its storage.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..ops.interception.subclass import DisableTorchFunction, make_wrapper_subclass
from ..ops.quantized.conversion import (
    make_channel_quantizer, make_tensor_quantizer, quantized_tensor_on,
)
from ..tensor import Tensor
from ..tensor.dtypes import QuantizedDtype, dtype, from_numpy_dtype, parse_dtype, uint8
from ..tensor.layout import strided
from ..tensor.quantizers import (
    Quantizer, per_channel_affine, per_channel_affine_float_qparams, per_tensor_affine,
)
from ..tensor.storage import TypedStorage, UntypedStorage
from ..tensor.tensor import wrap_storage
from .location import MapLocation, place_of

# The storage class of each dtype in a file; other dtypes use UntypedStorage.
STORAGE_NAMES = {
    "float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage", "int64": "LongStorage", "int32": "IntStorage",
    "int16": "ShortStorage", "int8": "CharStorage", "uint8": "ByteStorage",
    "bool": "BoolStorage", "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
    "qint8": "QInt8Storage", "quint8": "QUInt8Storage", "qint32": "QInt32Storage",
    "quint4x2": "QUInt4x2Storage", "quint2x4": "QUInt2x4Storage",
}


class StorageType:
    """A storage class named in a file, such as `torch.FloatStorage`: a named dtype."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dtype: dtype = _DTYPE_OF_STORAGE[name]

    def __repr__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


_DTYPE_OF_STORAGE = {name: parse_dtype(key) for key, name in STORAGE_NAMES.items()}
STORAGE_TYPES = {name: StorageType(name) for name in _DTYPE_OF_STORAGE}


class _LoadState(threading.local):
    """State of `load` in this thread, for tensors whose device is not their storage's."""

    map_location: MapLocation = None
    unchecked: list[tuple[Any, Any]] | None = None  # sparse tensors of the file being loaded


LoadState = _LoadState()


# ------------------------------------------------------------------------------ loading


def _check_lengths(label: str, values: Any) -> tuple[int, ...]:
    ok = isinstance(values, (tuple, list)) and len(values) <= 64
    if not ok or any(type(v) is not int or v < 0 for v in values):
        raise RuntimeError(f"the {label} of a saved tensor must be up to 64 non-negative ints")
    return tuple(values)


def _find_untyped(storage: Any) -> Any:
    return getattr(storage, "_untyped_storage", storage)


def _create_window(storage: Any, element_type: dtype, offset: Any, size: Any,
                   stride: Any) -> Tensor:
    size, stride = _check_lengths("size", size), _check_lengths("stride", stride)
    (offset,) = _check_lengths("storage offset", (offset,))
    if len(size) != len(stride):
        raise RuntimeError(
            f"a saved tensor has {len(size)} sizes and {len(stride)} strides: they must be as many"
        )
    untyped = _find_untyped(storage)
    if untyped.device.type == "meta":
        return ops.empty_strided(size, stride, dtype=element_type, device="meta")
    if not isinstance(untyped, UntypedStorage):
        raise RuntimeError(f"cannot rebuild a tensor on a {type(untyped).__name__}")
    if 0 not in size:
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if (last + 1) * element_type.itemsize > untyped.nbytes():
            raise RuntimeError(
                f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, "
                f"and itemsize {element_type.itemsize} requiring a storage size of "
                f"{(last + 1) * element_type.itemsize} are out of bounds for storage of size "
                f"{untyped.nbytes()}"
            )
    return wrap_storage(untyped, element_type, offset, size, stride)


def _with_metadata(tensor: Tensor, metadata: dict[str, bool] | None) -> Tensor:
    """Apply the conjugate and negative bits given by the file."""
    for name in metadata or ():
        if name not in ("conj", "neg"):
            raise RuntimeError(f"a saved tensor has the unknown property {name!r}")
    if metadata and metadata.get("conj"):
        tensor = tensor.conj()
    if metadata and metadata.get("neg"):
        tensor = ops._neg_view(tensor)
    return tensor


def _set_requires_grad(tensor: Tensor, requires_grad: Any) -> Tensor:
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> Tensor:
    element_type = getattr(storage, "dtype", uint8)
    return _create_window(storage, element_type, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int],
    requires_grad: bool, backward_hooks: Any, metadata: dict[str, bool] | None = None,
) -> Tensor:
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    return _set_requires_grad(_with_metadata(tensor, metadata), requires_grad)


def _rebuild_tensor_v3(
    storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int],
    requires_grad: bool, backward_hooks: Any, dtype: dtype,
    metadata: dict[str, bool] | None = None,
) -> Tensor:
    tensor = _create_window(storage, dtype, storage_offset, size, stride)
    return _set_requires_grad(_with_metadata(tensor, metadata), requires_grad)


def _rebuild_meta_tensor_no_storage(
    dtype: dtype, size: Sequence[int], stride: Sequence[int], requires_grad: bool
) -> Tensor:
    size, stride = _check_lengths("size", size), _check_lengths("stride", stride)
    tensor = ops.empty_strided(size, stride, dtype=dtype, device="meta")
    return _set_requires_grad(tensor, requires_grad)


def _as_tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise RuntimeError(f"a saved parameter's data is a {type(value).__name__}, not a Tensor")
    return value


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Tensor:
    return get_parameter_class()(_as_tensor(data), bool(requires_grad))


def _rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any
) -> Tensor:
    return set_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _rebuild_device_tensor_from_cpu_tensor(
    data: Tensor, dtype: dtype, device: Any, requires_grad: bool
) -> Tensor:
    data, target = _as_tensor(data), place_of(LoadState.map_location, device)
    stored = data.untyped_storage().nbytes() if data.device.type == "cpu" else 0
    if data.dtype != dtype and data.numel() * data.element_size() > stored:
        # Otherwise a broadcast of a few bytes could request any amount of memory.
        raise RuntimeError(f"a saved tensor of shape {tuple(data.shape)} exceeds its storage")
    return _set_requires_grad(data.to(dtype=dtype, device=target), requires_grad)


def _rebuild_device_tensor_from_numpy(
    data: Any, dtype: dtype, device: Any, requires_grad: bool
) -> Tensor:
    target = place_of(LoadState.map_location, device)
    return _set_requires_grad(ops.from_numpy(data).to(dtype=dtype, device=target), requires_grad)


def _create_refusal(name: str, feature: str) -> Callable[..., Any]:
    def refuse(*args: Any) -> Any:
        raise NotImplementedError(f"{name}: flambeau does not have {feature} yet")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def _rebuild_sparse_tensor(layout: Any, data: Any) -> Tensor:
    """Rebuild a sparse tensor from its parts and validate its indices. During `load`, validation
    waits until the end of the file: old files store the index values there."""
    if LoadState.unchecked is not None:
        LoadState.unchecked.append((layout, data))
        return _create_sparse_tensor(layout, data, False)
    return _create_sparse_tensor(layout, data, not _is_on_meta(data))


def _is_on_meta(data: Any) -> bool:
    """Return whether the parts of a sparse tensor are meta tensors: they have no indices."""
    return isinstance(data, tuple) and any(isinstance(x, Tensor) and x.is_meta for x in data)


def check_sparse_tensors() -> None:
    """Raise RuntimeError for the first loaded sparse tensor with invalid indices."""
    for layout, data in LoadState.unchecked or ():
        _create_sparse_tensor(layout, data, not _is_on_meta(data))


def _create_sparse_tensor(layout: Any, data: Any, check_invariants: bool) -> Tensor:
    layout_name = getattr(layout, "name", None)
    if layout_name == "sparse_coo" and isinstance(data, tuple) and len(data) in (3, 4):
        indices, values, size = data[:3]
        coalesced = data[3] if len(data) == 4 else None
        result: Tensor = ops.sparse_coo_tensor(
            _as_tensor(indices), _as_tensor(values), _check_lengths("size", size),
            check_invariants=check_invariants, is_coalesced=coalesced)
        return result
    if layout_name in _COMPRESSED and isinstance(data, tuple) and len(data) == 4:
        compressed, plain_indices, values, size = data
        result = ops.sparse_compressed_tensor(
            _as_tensor(compressed), _as_tensor(plain_indices), _as_tensor(values),
            _check_lengths("size", size),
            layout=layout, check_invariants=check_invariants)
        return result
    raise NotImplementedError(f"rebuilding sparse tensor for layout {layout}")


def _rebuild_qtensor(
    storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int],
    quantizer_params: Any, requires_grad: bool, backward_hooks: Any,
) -> Tensor:
    """Rebuild a quantized tensor from its integers and quantization parameters."""
    element_type = getattr(storage, "dtype", None)
    if not isinstance(element_type, QuantizedDtype) or not isinstance(quantizer_params, tuple):
        raise RuntimeError("a saved quantized tensor lies on a storage of another dtype")
    scheme, *parameters = quantizer_params
    by_channel = scheme in (per_channel_affine, per_channel_affine_float_qparams)
    if (scheme is not per_tensor_affine or len(parameters) != 2) and (not by_channel
                                                                      or len(parameters) != 3):
        raise RuntimeError(f"Can't deserialize quantized tensor with qscheme {scheme}")
    if element_type.packed > 1:
        lengths = _check_lengths("size", size)
        nbytes = math.prod(lengths[:-1]) * -(-lengths[-1] // element_type.packed) if lengths else 1
        codes = _create_window(storage, uint8, storage_offset, (nbytes,), (1,))
    else:
        codes = _create_window(storage, from_numpy_dtype(element_type.codes), storage_offset, size,
                               stride)
    shape = tuple(size)
    if by_channel:
        scales, zero_points = _convert_parameters(parameters[0]), _convert_parameters(parameters[1])
        quantizer: Quantizer = make_channel_quantizer(element_type, scales, zero_points,
                                                      parameters[2], shape)
    else:
        quantizer = make_tensor_quantizer(element_type, *parameters)
    return quantized_tensor_on(codes, shape, quantizer)


def _convert_parameters(values: Any) -> Tensor:
    """Return scales or zero points as a tensor. Older files have a list."""
    return ops.tensor(values) if isinstance(values, list) else _as_tensor(values)


_COMPRESSED = ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
_rebuild_nested_tensor = _create_refusal("_rebuild_nested_tensor", "nested tensors")


def _rebuild_wrapper_subclass(
    new_type: type, element_type: dtype, size: Sequence[int], stride: Sequence[int],
    storage_offset: int, layout: Any, device: Any, requires_grad: bool,
) -> Tensor:
    return make_wrapper_subclass(
        new_type, size, strides=stride, storage_offset=storage_offset, dtype=element_type,
        layout=layout, device=device, requires_grad=requires_grad)


def set_state(target: Any, state: Any) -> Any:
    """Restore a tensor's saved attributes. Raises RuntimeError for names no user can set."""
    dictionaries = state if isinstance(state, tuple) else (state, None)
    if len(dictionaries) != 2:
        raise RuntimeError(f"Invalid serialized state: {len(dictionaries)} parts instead of 2")
    for attributes in dictionaries:
        for name, value in (attributes or {}).items():
            if not isinstance(name, str) or name.startswith("__"):
                raise RuntimeError("a saved tensor has an attribute that no tensor can have")
            setattr(target, name, value)
    return target


def _rebuild_from_type_v2(
    func: Callable[..., Tensor], new_type: type, args: tuple[Any, ...], state: Any
) -> Tensor:
    if func not in REBUILDERS:
        raise RuntimeError(f"{func!r} does not rebuild a tensor")
    if not (isinstance(new_type, type) and issubclass(new_type, Tensor)):
        raise RuntimeError(f"{new_type!r} is not a Tensor class")
    result = func(*args)
    if type(result) is not new_type:
        requires_grad, result = result.requires_grad, result._alias(new_type)
        with DisableTorchFunction():
            Tensor.requires_grad_(result, requires_grad)
    set_state_of = getattr(new_type, "__setstate__", None)
    if set_state_of is not None and set_state_of is not getattr(Tensor, "__setstate__", None):
        set_state_of(result, state)
        return result
    return set_state(result, state)


REBUILDERS = (
    _rebuild_tensor, _rebuild_tensor_v2, _rebuild_tensor_v3, _rebuild_parameter,
    _rebuild_parameter_with_state, _rebuild_meta_tensor_no_storage,
    _rebuild_device_tensor_from_cpu_tensor, _rebuild_device_tensor_from_numpy,
    _rebuild_sparse_tensor, _rebuild_nested_tensor, _rebuild_qtensor, _rebuild_wrapper_subclass,
)


def get_parameter_class() -> Any:
    """Return `nn.Parameter`, imported lazily: tensors can be loaded before any module exists."""
    from ..nn.parameter import Parameter

    return Parameter


# ------------------------------------------------------------------------------- saving


# Attributes that autograd keeps on a tensor: they belong to the running program.
_OF_THE_TAPE = frozenset((
    "_accumulator", "_backward_hooks", "_one_of_many", "_post_accumulate_grad_hooks", "_retained",
))


def _read_state(tensor: Tensor) -> Any:
    """Return the user's attributes of a tensor, or None."""
    get_state = getattr(type(tensor), "__getstate__", None)
    if get_state is not None and get_state is not getattr(Tensor, "__getstate__", None):
        return tensor.__getstate__()
    state = {k: v for k, v in tensor.__dict__.items()
             if k not in _OF_THE_TAPE and not k.startswith("_flambeau_")}
    return state or None


def _reduce_values(tensor: Tensor) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
    hooks: OrderedDict[Any, Any] = OrderedDict()
    kind, size, stride = tensor.dtype, tuple(tensor.shape), tuple(tensor.stride())
    if tensor.device.type == "meta":
        return _rebuild_meta_tensor_no_storage, (kind, size, stride, tensor.requires_grad)
    storage, offset = tensor.untyped_storage(), tensor.storage_offset()
    known = {"conj": tensor.is_conj(), "neg": tensor.is_neg()}
    bits = ({k: v for k, v in known.items() if v},) if any(known.values()) else ()
    if kind.name in STORAGE_NAMES:
        typed = TypedStorage(wrap_storage=storage, dtype=kind)
        return _rebuild_tensor_v2, (typed, offset, size, stride, tensor.requires_grad, hooks, *bits)
    return _rebuild_tensor_v3, (storage, offset, size, stride, tensor.requires_grad, hooks, kind,
                                *bits)


def _reduce_sparse(tensor: Tensor) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
    """Reduce a sparse tensor to its layout and parts."""
    form = tensor.layout
    if tensor.__dict__.get("_is_param"):
        return _rebuild_parameter, (tensor.data, tensor.requires_grad, OrderedDict())
    if tensor.is_sparse:
        parts: tuple[Any, ...] = (
            tensor._indices(), tensor._values(), tensor.size(), tensor.is_coalesced())
        return _rebuild_sparse_tensor, (form, parts)
    if form.name in ("sparse_csr", "sparse_bsr"):
        indices = tensor.crow_indices(), tensor.col_indices()
    else:
        indices = tensor.ccol_indices(), tensor.row_indices()
    parts = (*indices, tensor.detach().values(), tensor.size())
    return _rebuild_sparse_tensor, (form, parts)


def _reduce_quantized(tensor: Tensor) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
    """Reduce a quantized tensor to its storage and quantization parameters."""
    scheme: Any = tensor.qscheme()
    if scheme is per_tensor_affine:
        parts: tuple[Any, ...] = (scheme, tensor.q_scale(), tensor.q_zero_point())
    else:
        parts = (scheme, tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points(),
                 tensor.q_per_channel_axis())
    return _rebuild_qtensor, (
        tensor.storage(), tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()),
        parts, False, OrderedDict())


def _reduce_wrapper(tensor: Tensor) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
    return _rebuild_wrapper_subclass, (
        type(tensor), tensor.dtype, tuple(tensor.size()), tensor.stride(), tensor.storage_offset(),
        tensor.layout, tensor.device, tensor.requires_grad)


def reduce_tensor(tensor: Tensor) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
    """Return how to pickle a tensor: a rebuild function and its arguments, storage first."""
    state = _read_state(tensor)
    if type(tensor).__name__ == "Parameter" and type(tensor) is get_parameter_class():
        parts: tuple[Any, ...] = (tensor.data, tensor.requires_grad, OrderedDict())
        if state:
            return _rebuild_parameter_with_state, (*parts, state)
        return _rebuild_parameter, parts
    if tensor.layout is not strided:
        return _reduce_sparse(tensor)
    if tensor.is_quantized:
        return _reduce_quantized(tensor)
    if type(tensor) is Tensor and not state:
        return _reduce_values(tensor)
    # A wrapper has no memory: its class keeps tensors among its attributes, which are the state.
    is_wrapper = "_flambeau_device" in tensor.__dict__
    func, args = _reduce_wrapper(tensor) if is_wrapper else _reduce_values(tensor)
    return _rebuild_from_type_v2, (func, type(tensor), args, state)


def set_tensor_state(tensor: Tensor, state: tuple[Any, ...]) -> None:
    """Fill a tensor from the state that PyTorch's old pickles have: the arguments of `set_`, the
    parts of a variable, or its flag, an unused value and its hooks."""
    if not tensor.is_leaf:
        raise RuntimeError("__setstate__ can be only called on leaf Tensors")
    if len(state) == 4:
        tensor.set_(*state)
        return
    if len(state) == 5:
        tensor.data = state[0]
        state = (state[3], state[4], state[2])
    tensor.requires_grad_(state[0])
