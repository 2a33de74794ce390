"""Creation: new tensors from shapes, ranges and fill values, and the `*_like` and `new_*` forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd.backward import Functions, require_gradients
from ...native.foundation.allocation import allocate, explain_allocation
from ...native.foundation.user_frames import add_notes, warn
from ...tensor import devices, dtypes as types
from ...tensor.determinism import fill_new, new_memory, should_fill
from ...tensor.dtypes import FLOATS, as_dtype, dtype as Dtype
from ...tensor.layout import (
    allocate_copy, empty_strided_array, format_strides, is_plain, preserve_format, sparse_coo,
    strided,
)
from ...tensor.meta import MetaArray, meta_array
from ...tensor.narrow_dtypes import COMPLEX32, NARROW, refuse_narrow
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor, creation, wrap
from ..core.arguments.checks import build_size_error, read_length
from ..core.errors import answer_failed, wrap_with_explanation
from ..core.operator import PUBLIC, publish
from ..core.scalar_conversion import check_number, convert_scalar, fits, number
from ..native.row_copies import fill
from .factories import Contents, declare_factory

_default = devices.DefaultDevice
_default_dtype = types.DefaultDtype
_CPU = devices.CPU
_new = object.__new__


def public(
    *names: str, spaces: Sequence[str] = ("torch",), explains: bool | str = False,
    creates: Contents | None = None, template: str | None = None,
) -> Callable:
    """Publish a function that is not an operator: without tensor inputs or a derivative.

    `names` are its public names, by default its own name. `explains`: raise PyTorch's TypeError,
    under this name if a string, when a number is passed in place of a tensor. `creates`: what the
    tensor contains that a factory creates, perhaps like a `template` (see `declare_factory`).
    """

    def decorate(function: Callable) -> Callable:
        shown = names or (function.__name__,)
        if explains:
            function = wrap_with_explanation(shown[0] if explains is True else explains, function)
        publish(function, shown, spaces)
        if creates is not None:
            declare_factory(function, creates, template)
        return function

    return decorate


def parse_shape(size: tuple, named: Any = None, name: str = "") -> tuple[int, ...]:
    """Return the shape that `f(2, 3)`, `f((2, 3))` or `f(size=(2, 3))` requests of `name`."""
    if named is not None:
        size = (named,)
    spread = True
    if len(size) == 1 and size[0].__class__ is not int:
        first = size[0]
        refuse_array_shape(first, "size")
        if first.__class__ is tuple or first.__class__ is list \
                or (hasattr(first, "__iter__") and getattr(first, "ndim", True)
                    and not isinstance(first, (str, set, dict))):
            size, spread = tuple(first), False
    elif not size and name:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    result = tuple([n if n.__class__ is int else _read_length(name, size, i, spread, named)
                    for i, n in enumerate(size)])
    for n in result:
        if n < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {n}: {list(result)}"
            )
    return result


def _read_length(name: str, size: tuple, index: int, spread: bool, named: Any) -> int:
    """Return an element of a shape as an int; bools are lengths, but not the first one."""
    n = size[index]
    if not name:
        return read_length(n)
    if isinstance(n, (float, str)) or (isinstance(n, bool) and not index):
        raise build_size_error(name, size, index, spread, named is not None)
    try:
        return n.__index__()
    except (AttributeError, TypeError):
        raise build_size_error(name, size, index, spread, named is not None) from None


def refuse_array_shape(shape: Any, name: str) -> None:
    """Raise TypeError for an array with axes as the argument `name`, a shape."""
    if shape.__class__ is np.ndarray and shape.ndim:
        raise add_notes(
            TypeError(f"argument '{name}' (position 1) must be tuple of ints, not numpy.ndarray"),
            "tuple(array.tolist()) makes a shape of it.",
        )


def place(array: np.ndarray, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor on `array`, on the requested device or the default one."""
    target = _default.current if device is None else devices.require_usable(device)
    if target is not _CPU:
        array = meta_array(array.shape, array.dtype)
    result = wrap(array)
    return require_grad(result) if requires_grad else result


def require_grad(result: Tensor) -> Tensor:
    """Make a new tensor require grad; RuntimeError if its dtype cannot."""
    if result._array.dtype.kind not in "fcV":
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    return require_gradients(result)


def is_on_meta(device: Any) -> bool:
    """Return whether `device`, or the default device if None, is the meta device."""
    target = _default.current if device is None else devices.require_usable(device)
    return target is not _CPU


def get_numpy_dtype(dtype: Dtype | None, function: str = "") -> np.dtype:
    """Return NumPy's counterpart of a dtype, or of the default dtype; errors name `function`."""
    if dtype is None:
        return _default_dtype.floating.numpy
    converted = as_dtype(dtype)
    if not isinstance(converted, Dtype):
        caller = f"{function}(): " if function else ""
        raise TypeError(
            f"{caller}argument 'dtype' must be torch.dtype, not {type(dtype).__name__}"
        )
    return converted.numpy


def read_number(x: Any) -> Any:
    """Return a Python number from a number, or from a tensor or NumPy scalar that holds it."""
    if x.__class__ is int and not -(2**63) <= x < 2**64:
        raise OverflowError("int too big to convert" if x > 0
                            else "can't convert negative int to unsigned")
    return x.item() if isinstance(x, (Tensor, np.generic)) else x


def check_out_place(out: Tensor, layout: Any, device: Any) -> None:
    """Raise RuntimeError if a layout or device was asked for and `out` has another."""
    if layout is not None and layout is not out.layout:
        expected, actual = (
            "".join(map(str.capitalize, str(x).partition(".")[2].removesuffix("_coo").split("_")))
            for x in (layout, out.layout))
        raise RuntimeError(f"layout {expected} does not match layout of out parameter ({actual})")
    if device is not None and (target := devices.require_usable(device)).type != out.device.type:
        raise RuntimeError(f"device type {target.type} does not match device type of out parameter "
                           f"({out.device.type})")


def write_created(
    out: Tensor, array: np.ndarray, dtype: Dtype | None = None, layout: Any = None,
    device: Any = None, counted: bool = False,
) -> Tensor:
    """Write a factory's numbers into `out`, which keeps its shape if it has as many elements.

    `counted`: how many there are follows from rounded numbers, so that another length is worth a
    warning. RuntimeError if `dtype` was asked for and `out` has another.
    """
    if out._array.strides is None:  # sparse
        return out.sparse_resize_and_clear_(array.shape, array.ndim, 0)
    if dtype is not None and get_numpy_dtype(dtype) != out._array.dtype:
        raise RuntimeError(
            f"dtype {legacy_name(as_dtype(dtype))} does not match dtype of out parameter "
            f"({legacy_name(out.dtype)})"
        )
    check_out_place(out, layout, device)
    if array.ndim == 1 and out._array.size == array.size:
        array = array.reshape(out._array.shape)
    elif out._array.shape != array.shape:
        if counted and out._array.size:
            warn(
                f"The number of elements in the out tensor of shape {list(out._array.shape)} is "
                f"{out._array.size} which does not match the computed number of elements "
                f"{array.size}. Note that this may occur as a result of rounding error. The out "
                f"tensor will be resized to a tensor of shape ({array.size},).",
                UserWarning,
            )
        out._array = np.empty(array.shape, out._array.dtype)
    np.copyto(out._array, array, casting="unsafe")
    out._bump()
    return out


def _fill(
    make: Callable, name: str, doc: str, contents: Contents = Contents.FIXED
) -> Callable:
    """Publish torch.zeros, ones or empty, from NumPy's function."""

    def function(
        *size: Any, out: Tensor | None = None, dtype: Dtype | None = None, layout: Any = None,
        device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
        memory_format: Any = None, **kwargs: Any,
    ) -> Tensor:
        named = _require_size(name, kwargs) if kwargs else None
        if len(size) != 1 or size[0].__class__ is not int or size[0] < 0:
            size = parse_shape(size, named, name)
        kind = _default_dtype.floating.numpy if dtype is None else get_numpy_dtype(dtype, name)
        if layout is not None and layout is not strided:
            if out is not None:
                check_out_place(out, layout, device)
            return _create_sparse(name, size, kind, layout, requires_grad, device)
        if out is not None:
            kind = out._array.dtype
        try:
            if out is not None:
                return write_created(out, make(size, kind), dtype, layout, device)
            on_cpu = (device is None and _default.current is _CPU) or not is_on_meta(device)
            array = make(size, kind) if on_cpu else meta_array(size, kind)
        except (MemoryError, ValueError) as error:
            raise explain_allocation(error, size, kind) from None
        if memory_format is not None and name == "empty":
            array = empty_strided_array(size, format_strides(size, memory_format), kind)
            array = fill_new(array) if should_fill() else array
        result = _new(Tensor)
        result._array = array
        result._requires_grad = result._tracked = False
        result._node = result._grad = result._counter = result._base = None
        result._stamp = creation.stamp
        return require_grad(result) if requires_grad else result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    public(name, creates=contents)(function)
    return function


def _create_sparse(
    name: str, size: tuple, kind: np.dtype, layout: Any, requires_grad: bool, device: Any
) -> Tensor:
    """A sparse tensor without values."""
    on_meta = is_on_meta(device)
    if name == "ones":
        backend = "SparseMeta" if on_meta else "SparseCPU"
        raise NotImplementedError(
            f"Could not run 'aten::fill_.Scalar' with arguments from the '{backend}' backend.")
    result = PUBLIC["sparse"]["allocate_in_layout"](size, kind, layout, on_meta)
    return require_grad(result) if requires_grad else result


def _require_size(name: str, kwargs: dict[str, Any]) -> Any:
    if set(kwargs) != {"size"}:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(kwargs))}'")
    return kwargs["size"]


zeros = _fill(np.zeros, "zeros", """A tensor of zeros, of shape `size`.

    The dtype is the default one, float32, unless given.

    >>> torch.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """)
def _create_ones(shape: Any, kind: np.dtype) -> np.ndarray:
    return np.full(shape, convert_scalar(1, kind)) if kind in NARROW else np.ones(shape, kind)


ones = _fill(_create_ones, "ones", """A tensor of ones, of shape `size`.

    The dtype is the default one, float32, unless given.

    >>> torch.ones(3), torch.ones((), dtype=torch.int64)
    (tensor([1., 1., 1.]), tensor(1))
    """)
empty = _fill(new_memory, "empty", """A tensor of shape `size` whose memory holds anything.

    >>> torch.empty(2, 3).shape
    torch.Size([2, 3])
    """, Contents.UNDEFINED)


def _fill_dtype(value: Any, dtype: Dtype | None) -> np.dtype:
    return get_numpy_dtype(types.infer_scalar_dtype(value) if dtype is None else dtype)


@public(creates=Contents.FIXED)
def full(
    size: Any, fill_value: Any, *, out: Tensor | None = None, dtype: Dtype | None = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of shape `size` filled with one value, from which the dtype is inferred.

    >>> torch.full((2,), 3)
    tensor([3, 3])
    """
    value = read_number(fill_value)
    check_number("full", "fill_value", 2, value)
    shape = parse_shape((size,), name="full")
    if out is not None:
        array = np.full(shape, convert_scalar(value, out._array.dtype))
        return write_created(out, array, dtype, layout, device)
    kind = _fill_dtype(value, dtype)
    if is_on_meta(device):
        return place(meta_array(shape, kind), device, requires_grad)
    array = allocate(shape, kind)
    if kind in NARROW:
        array[...] = convert_scalar(value, kind)
        return place(array, device, requires_grad)
    plain = value.__class__ is float and kind in FLOATS
    fill(array, number(value, kind) if plain and fits(value, kind) else convert_scalar(value, kind))
    return place(array, device, requires_grad)


@public()
def scalar_tensor(
    s: Any, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:
    """Return a 0-dimensional tensor holding one number, in the default dtype unless given.

    >>> torch.scalar_tensor(2)
    tensor(2.)
    """
    value = s.item() if isinstance(s, Tensor) else s
    kind = _default_dtype.floating if dtype is None else dtype
    if isinstance(value, complex) and not kind.is_complex:
        raise RuntimeError(f"value cannot be converted to type {kind} without overflow")
    return full((), value, dtype=kind, device=device, requires_grad=requires_grad)


@public(creates=Contents.UNDEFINED)
def empty_strided(
    size: Any, stride: Any, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:
    """Return an uninitialized tensor with the given strides, in elements.

    >>> torch.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    if is_on_meta(device):
        return place(meta_array(tuple(size), get_numpy_dtype(dtype)), device, requires_grad)
    array = empty_strided_array(tuple(size), tuple(stride), get_numpy_dtype(dtype))
    if should_fill():
        fill_new(array)
    return place(array, device, requires_grad)


@public(creates=Contents.UNDEFINED)
def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: Dtype | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:
    """Return an uninitialized dense tensor with the given order of axes in memory.

    >>> torch.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
    (12, 1, 3)
    """
    order = tuple(physical_layout)
    _check_layout(tuple(size), order)
    memory = new_memory([size[i] for i in order], get_numpy_dtype(dtype))
    return place(memory.transpose(np.argsort(order)), device, requires_grad)


def _check_layout(size: tuple[int, ...], order: tuple[int, ...]) -> None:
    rank = len(size)
    if len(order) != rank:
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {rank} is not equal to len(physical_layout) = {len(order)}"
        )
    for i, axis in enumerate(order):
        if not 0 <= axis < rank:
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {rank - 1}, but got {axis} "
                f"at index {i}).  NB: negative dims not currently supported; file an issue if you "
                "want it."
            )
    if len(set(order)) < rank:
        raise RuntimeError("Duplicate dim not allowed")


@public(creates=Contents.FIXED)
def eye(
    n: int, m: int | None = None, *, out: Tensor | None = None, dtype: Dtype | None = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:
    """Return the n x m matrix with ones on the diagonal and zeros elsewhere.

    >>> torch.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    m = n if m is None else m
    for name, length in (("n", n), ("m", m)):
        if length < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {length}")
    kind = get_numpy_dtype(dtype) if out is None else out._array.dtype
    if kind == COMPLEX32:
        refuse_narrow(kind, "eye")
    if out is None and is_on_meta(device):
        return place(meta_array((n, m), kind), device, requires_grad)
    try:
        array = np.eye(n, m, dtype=kind)
    except (MemoryError, ValueError) as error:
        raise explain_allocation(error, (n, m), kind) from None
    return place(array, device, requires_grad) if out is None else write_created(
        out, array, dtype, layout, device)


# ------------------------------------------------------------------------ like another tensor


def allocate_like(
    input: Tensor, dtype: Dtype | None, memory_format: Any = None, device: Any = None,
    clear: bool = False, layout: Any = None,
) -> np.ndarray:
    """Return an array with the shape, dtype and axis order of `input`.

    It is uninitialized, or zero with `clear`, which supports no other `memory_format`.
    NotImplementedError for a sparse layout.
    """
    source = input._array
    if layout is not None and layout is not strided and input.layout is strided:
        backend = "SparseCPU" if layout is sparse_coo else "SparseCsrCPU"
        raise NotImplementedError(
            f"Could not run 'aten::empty_strided' with arguments from the '{backend}' backend.")
    kind = source.dtype if dtype is None else get_numpy_dtype(dtype)
    if source.__class__ is MetaArray if device is None else is_on_meta(device):
        return meta_array(source.shape, kind)
    form = memory_format or preserve_format
    if form is not preserve_format:
        return empty_strided_array(source.shape, format_strides(source.shape, form), kind)
    if is_plain(source):
        return np.zeros(source.shape, kind) if clear else np.empty(source.shape, kind)
    result = allocate_copy(source, kind)
    if clear:
        result[...] = 0
    return result


def _create_like(name: str, value: Any) -> Callable:
    def function(
        input: Tensor, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
    ) -> Tensor:
        # Zeros of the system's need no writing, and no memory before they are used.
        clear = value == 0 and memory_format is None
        if value == 0 and layout is not None and layout is not strided and input.layout is strided:
            return _create_sparse(name, tuple(input.shape), get_numpy_dtype(dtype or input.dtype),
                                  layout, requires_grad, device or input.device)
        try:
            array = allocate_like(input, dtype, memory_format, device, clear, layout)
        except AttributeError as error:
            settings = {"dtype": dtype, "layout": layout, "device": device,
                        "requires_grad": requires_grad, "memory_format": memory_format}
            return answer_failed(error, name, function, (input,),
                                 {n: v for n, v in settings.items() if v})
        if value is None:
            if should_fill() and array.__class__ is not MetaArray:
                fill_new(array)
        elif array.__class__ is not MetaArray and not clear:
            array[...] = convert_scalar(value, array.dtype) if array.dtype in NARROW else value
        result = wrap(array)
        return require_grad(result) if requires_grad else result

    function.__name__ = function.__qualname__ = name
    contents = {"empty_like": "uninitialised memory", "zeros_like": "zeros", "ones_like": "ones"}
    shown = ".shape\n    torch.Size([2])" if value is None else f"\n    tensor([{value}, {value}])"
    function.__doc__ = f"""A tensor of {contents[name]} with the shape and dtype of `input`.

    >>> torch.{name}(torch.tensor([5, 6])){shown}
    """
    creates = Contents.UNDEFINED if value is None else Contents.FIXED
    public(name, creates=creates, template="input")(function)
    return function


empty_like, zeros_like = _create_like("empty_like", None), _create_like("zeros_like", 0)
ones_like = Functions.ones_like = _create_like("ones_like", 1)


@public(creates=Contents.FIXED, template="input")
def full_like(
    input: Tensor, fill_value: Any, *, dtype: Dtype | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return a tensor filled with one value, with the shape and dtype of `input`.

    >>> torch.full_like(torch.zeros(2, dtype=torch.int64), 7)
    tensor([7, 7])
    """
    try:
        array = allocate_like(input, dtype, memory_format, device, layout=layout)
    except AttributeError as error:
        settings = {"dtype": dtype, "layout": layout, "device": device,
                    "requires_grad": requires_grad, "memory_format": memory_format}
        return answer_failed(error, "full_like", full_like, (input, fill_value),
                             {n: v for n, v in settings.items() if v})
    if array.__class__ is not MetaArray:
        value = read_number(fill_value)
        check_number("full_like", "fill_value", 2, value)
        fill(array, convert_scalar(value, array.dtype))
    result = wrap(array)
    return require_grad(result) if requires_grad else result


def _attach_new_method(
    name: str, function: Callable, doc: str, contents: Contents = Contents.FIXED
) -> None:
    def method(
        self: Tensor, *size: Any, dtype: Dtype | None = None, device: Any = None,
        requires_grad: bool = False, layout: Any = None, pin_memory: bool = False, **kwargs: Any,
    ) -> Tensor:
        try:
            return function(
                *size, dtype=self.dtype if dtype is None else dtype,
                device=self.device if device is None else device, requires_grad=requires_grad,
                **kwargs
            )
        except TypeError:
            parse_shape(size, kwargs.get("size"), name)  # its error names the method
            raise

    method.__name__, method.__doc__ = name, doc
    public(name, spaces=("Tensor",), creates=contents, template="self")(method)


_attach_new_method("new_empty", empty, """An uninitialised tensor with this one's dtype.

    >>> torch.tensor([1, 2]).new_empty(3).dtype
    torch.int64
    """, Contents.UNDEFINED)
_attach_new_method("new_zeros", zeros, """Zeros with this one's dtype.

    >>> torch.tensor([1, 2]).new_zeros(3)
    tensor([0, 0, 0])
    """)
_attach_new_method("new_ones", ones, """Ones with this one's dtype.

    >>> torch.tensor([1, 2]).new_ones(3)
    tensor([1, 1, 1])
    """)
_attach_new_method("new_full", full, """A filled tensor with this one's dtype.

    >>> torch.tensor([1, 2]).new_full((2,), 7)
    tensor([7, 7])
    """)
_attach_new_method("new_empty_strided", empty_strided, """Uninitialised, with the strides given.

    >>> torch.zeros(1).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """, Contents.UNDEFINED)
