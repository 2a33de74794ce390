"""Tensor: a strided window on a storage, with a dtype, a device and a place in the autograd graph.

The window is a NumPy array, `_array`. flambeau.ops and flambeau.autograd attach their methods to
the class; this file defines the data structure itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..native.foundation.method_patches import PatchableType
from ..native.foundation.user_frames import add_notes, warn
from .devices import CPU, META, device
from .dtypes import FROM_NUMPY, dtype
from .layout import (
    contiguous_format, compute_contiguous_strides, is_contiguous, layout, find_owner, strided,
    get_strides,
)
from .meta import MetaArray, build_unreadable_error
from .narrow_dtypes import COMPLEX32, NARROW, convert_to_number, widen
from .printing import format_tensor, prints_as_tensor
from .shared_memory import is_shared, move_to_shared_memory
from .size import Size
from .storage import (
    STORAGE_TYPES, TypedStorage, UntypedStorage, VersionCounter, get_offset, get_storage,
    get_wrapper_storage, window,
)
from .windows.batched_window import BatchedWindow
from .windows.lazy_window import LazyWindow, get_memory, is_conjugated, is_negated

if TYPE_CHECKING:
    from .methods import Methods  # a generated stub of the operators' methods
else:
    Methods = object

_new_tuple = tuple.__new__


class _Creation:
    """The `_stamp` of new tensors that are not views: INFERENCE inside inference mode. And the
    modes of this thread, which autograd sets."""

    __slots__ = ("mode", "stamp")

    mode: Any
    stamp: Any


INFERENCE = "made in inference mode"
creation = _Creation()
creation.stamp = None


class _TensorType(PatchableType):
    """Metaclass of Tensor and its subclasses; `construct` returns the value of `Tensor(...)`.

    `instantiated` is called with the class of each new object of a subclass.
    """

    construct: Callable[..., Tensor]
    instantiated: Callable[[type], object]


_INTERNAL = frozenset(
    "_alias _array _bump _canonical_strides _check_assigned_grad _counter _history _node _reattach "
    "_requires_grad _stamp _tracked".split()
)


@prints_as_tensor
class Tensor(Methods, metaclass=_TensorType):
    """A multi-dimensional array of one dtype that autograd can differentiate through.

    Slots: `_array`: the window; `_requires_grad`; `_node`: the autograd node that made it (None for
    a leaf); `_grad`; `_counter`: counts writes to its memory (None until shared or written);
    `_base`: the tensor it is a view of, and `_stamp`: the base's node when the view was made;
    `_tracked`: it requires grad, or is a view whose base may require it by now.

    >>> x = torch.tensor([[1., 2.], [3., 4.]], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([[2., 4.],
            [6., 8.]])
    """

    __slots__ = (
        "__dict__", "__weakref__", "_array", "_base", "_counter", "_grad", "_node",
        "_requires_grad", "_stamp", "_tracked",
    )
    _array: np.ndarray
    _requires_grad: bool
    _tracked: bool
    _node: Any
    _grad: Tensor | None
    _counter: VersionCounter | None
    _base: Tensor | None
    _stamp: Any
    _reattach: Any
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """`Tensor(2, 3)` or `Tensor([1, 2])`; operators use object.__new__ instead."""
        return _TensorType.construct(cls, *args, **kwargs)

    def __dir__(self) -> list[str]:
        """Return only PyTorch's names: completion hides flambeau's slots and internal methods."""
        return [name for name in object.__dir__(self) if name not in _INTERNAL]

    # ---------------------------------------------------------------- properties

    @property
    def shape(self) -> Size:
        """The length of each axis.

        >>> torch.zeros(2, 3).shape
        torch.Size([2, 3])
        """
        return _new_tuple(Size, self._array.shape)

    @property
    def dtype(self) -> dtype:
        """The dtype of its elements.

        >>> torch.tensor([1]).dtype
        torch.int64
        """
        return FROM_NUMPY[self._array.dtype]

    @property
    def device(self) -> device:
        """The device of its memory.

        >>> torch.zeros(2).device
        device(type='cpu')
        """
        if self._array.__class__ is not MetaArray:
            return CPU
        return self.__dict__.get("_flambeau_device", META)  # of a wrapper: what it wraps

    @property
    def layout(self) -> layout:
        """The memory layout: always `torch.strided`.

        >>> torch.zeros(2).layout
        torch.strided
        """
        return strided

    @property
    def ndim(self) -> int:
        """The number of axes.

        >>> torch.zeros(2, 3).ndim
        2
        """
        return self._array.ndim

    @property
    def itemsize(self) -> int:
        """Bytes per element.

        >>> torch.zeros(2).itemsize
        4
        """
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        """Total bytes of its elements.

        >>> torch.zeros(2, 3).nbytes
        24
        """
        return self._array.nbytes

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the length along `dim`.

        >>> torch.zeros(2, 3).size(), torch.zeros(2, 3).size(-1)
        (torch.Size([2, 3]), 3)
        """
        if dim is None:
            return _new_tuple(Size, self._array.shape)
        shape = self._array.shape
        if not -max(len(shape), 1) <= dim < max(len(shape), 1) or not shape:
            raise IndexError(
                "Dimension specified as " + str(dim) + " but tensor has no dimensions"
                if not shape
                else f"Dimension out of range (expected to be in range of [{-len(shape)}, "
                f"{len(shape) - 1}], but got {dim})"
            )
        return shape[dim]

    def dim(self) -> int:
        """Return the number of axes.

        >>> torch.zeros(2, 3).dim()
        2
        """
        return self._array.ndim

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements.

        >>> torch.zeros(2, 3).numel()
        6
        """
        return self._array.size

    nelement = numel

    def stride(self, dim: int | None = None) -> Any:
        """Return the strides in elements, or the one along `dim`.

        >>> torch.zeros(2, 3).stride(), torch.zeros(2, 3).T.stride(0)
        ((3, 1), 1)
        """
        array = self._array
        if array.__class__ is MetaArray:
            result = array.layout[0] if array.layout else compute_contiguous_strides(array.shape)
        else:
            result = get_strides(array)
        return result if dim is None else result[dim]

    def storage_offset(self) -> int:
        """Return the offset of its first element in its storage, in elements.

        >>> torch.zeros(2, 3)[1].storage_offset()
        3
        """
        return get_offset(self._array)

    def element_size(self) -> int:
        """Return the bytes per element.

        >>> torch.zeros(2, dtype=torch.float64).element_size()
        8
        """
        return self._array.itemsize

    def is_contiguous(self, memory_format: Any = contiguous_format) -> bool:
        """Return whether its elements lie in memory in the order of the memory format.

        >>> torch.zeros(2, 3).is_contiguous(), torch.zeros(2, 3).T.is_contiguous()
        (True, False)
        """
        if self._array.__class__ is MetaArray:
            return self._array.is_contiguous(memory_format)
        return is_contiguous(self._array, memory_format)

    def data_ptr(self) -> int:
        """Return the address of its first element.

        >>> x = torch.zeros(2)
        >>> x[1:].data_ptr() - x.data_ptr()
        4
        """
        empty = self._array.size == 0 or "_flambeau_device" in self.__dict__
        return 0 if empty else get_memory(self._array).ctypes.data

    def untyped_storage(self) -> UntypedStorage:
        """Return the memory that it is a window of.

        >>> x = torch.zeros(2, 3)
        >>> x[1].untyped_storage().nbytes()
        24
        """
        is_wrapper = "_flambeau_device" in self.__dict__
        return get_wrapper_storage(self) if is_wrapper else get_storage(self._array)

    def storage(self) -> TypedStorage:
        """Return its memory as elements of its dtype.

        >>> torch.tensor([1., 2.]).storage().tolist()
        [1.0, 2.0]
        """
        return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)

    def storage_type(self) -> type:
        """Return the class of its storage.

        >>> torch.zeros(2).storage_type() is torch.FloatStorage
        True
        """
        return STORAGE_TYPES.get(self.dtype, TypedStorage)

    def is_floating_point(self) -> bool:
        """Return whether its dtype is floating-point.

        >>> torch.tensor([1.]).is_floating_point()
        True
        """
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Return whether its dtype is complex.

        >>> torch.tensor([1j]).is_complex()
        True
        """
        dtype = self._array.dtype
        return dtype.kind == "c" or dtype == COMPLEX32

    def is_signed(self) -> bool:
        """Return whether its dtype has negative numbers.

        >>> torch.tensor([1], dtype=torch.uint8).is_signed()
        False
        """
        return self.dtype.is_signed

    def is_set_to(self, tensor: Tensor) -> bool:
        """Return whether both are the same window on the same memory.

        >>> x = torch.zeros(2)
        >>> x.is_set_to(x.view(2)), x.is_set_to(x.clone())
        (True, False)
        """
        a, b = self._array, tensor._array
        same = a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype
        if not same or a.__class__ is not b.__class__:
            return False
        return self.data_ptr() == tensor.data_ptr() and (
            a.size > 0 or find_owner(a) is find_owner(b))

    def get_device(self) -> int:
        """Return the index of its GPU: -1 on the CPU.

        >>> torch.zeros(2).get_device()
        -1
        """
        return -1

    def is_pinned(self, device: Any = None) -> bool:
        """Return whether its memory is page-locked: always False.

        >>> torch.zeros(2).is_pinned()
        False
        """
        return False

    def is_shared(self) -> bool:
        """Return whether its memory is shared with other processes.

        >>> torch.zeros(2).is_shared()
        False
        """
        return is_shared(self._array)

    def share_memory_(self) -> Tensor:
        """Move its memory to shared memory, in place.

        >>> torch.zeros(2).share_memory_().is_shared()
        True
        """
        self._array = move_to_shared_memory(self._array)
        return self

    def is_inference(self) -> bool:
        """Return whether it was made in inference mode.

        >>> with torch.inference_mode():
        ...     torch.zeros(2).is_inference()
        True
        """
        result = self if self._base is None else self._base
        return result._stamp is INFERENCE

    def is_conj(self) -> bool:
        """Return whether it is a lazily conjugated view of its memory.

        >>> torch.tensor([1j]).conj().is_conj()
        True
        """
        return is_conjugated(self._array)

    def is_neg(self) -> bool:
        """Return whether it is a lazily negated view of its memory.

        >>> torch.tensor([1j]).conj().imag.is_neg()
        True
        """
        return is_negated(self._array)

    def resolve_conj(self) -> Tensor:
        """Return self, or a copy if it is a conjugate view.

        >>> torch.tensor([1 + 2j]).conj().resolve_conj()
        tensor([1.-2.j])
        """
        return self.clone() if self.is_conj() else self

    def resolve_neg(self) -> Tensor:
        """Return self, or a copy if it is a negative view.

        >>> torch.tensor([1.]).resolve_neg()
        tensor([1.])
        """
        return self.clone() if self.is_neg() else self

    is_cuda = property(lambda self: False)
    is_sparse = property(lambda self: False)
    is_sparse_csr = property(lambda self: False)
    is_quantized = property(lambda self: False)
    is_nested = property(lambda self: False)
    is_mkldnn = property(lambda self: False)
    is_mps = property(lambda self: False)
    is_xpu = property(lambda self: False)
    is_cpu = property(lambda self: self.device != META)
    is_meta = property(lambda self: self.device == META)

    # ---------------------------------------------------------------- autograd

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operator made it.

        >>> x = torch.ones(2, requires_grad=True)
        >>> x.is_leaf, (x * 2).is_leaf
        (True, False)
        """
        return self._history() is None

    @property
    def grad_fn(self) -> Any:
        """The node that made it; None for a leaf.

        >>> x = torch.ones(2, requires_grad=True)
        >>> x.grad_fn, (x * 2).grad_fn.name()
        (None, 'MulBackward0')
        """
        node = self._history()
        return None if node is None else node.shown()

    @property
    def output_nr(self) -> int:
        """Its index among the outputs of its node.

        >>> [y.output_nr for y in torch.ones(2, requires_grad=True).unbind()]
        [0, 1]
        """
        node = self._history()
        return 0 if node is None else node.output_number()

    def _history(self) -> Any:
        """Return its node, regenerated if its base was written in place since the view was made."""
        base = self._base
        if base is not None and base._node is not self._stamp:
            self._reattach()
        return self._node

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward accumulated here.

        >>> x = torch.ones(2, requires_grad=True)
        >>> x.grad is None
        True
        >>> (x * 3).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        """
        result = self._grad
        GradReads.count += 1
        if result is None and self._node is not None and "_retained" not in self.__dict__:
            warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. "
                "Its .grad attribute won't be populated during autograd.backward(). If you "
                "indeed want the .grad field to be populated for a non-leaf Tensor, use "
                ".retain_grad() on the non-leaf Tensor.",
                UserWarning,
            )
        return result

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            self._check_assigned_grad(value)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    def _check_assigned_grad(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(
                "assigned grad expected to be a Tensor or None but got grad of type "
                f"{type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value._array.dtype != self._array.dtype:
            raise RuntimeError(
                "attempting to assign a gradient with dtype "
                f"'{value.dtype}' to a tensor with dtype '{self.dtype}'. The gradient must match "
                "the tensor's dtype (or set grad_dtype)."
            )
        if value._array.shape != self._array.shape:
            raise RuntimeError(
                f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of "
                f"size '{list(self.shape)}'. Please ensure that the gradient and the tensor are "
                "the same size"
            )

    @property
    def _version(self) -> int:
        """The number of in-place writes to its memory; RuntimeError for inference tensors."""
        if self._stamp is INFERENCE:
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if self._counter is None else self._counter.value

    def _bump(self, writes: int = 1) -> None:
        """Count in-place writes."""
        if self._counter is None:
            self._counter = VersionCounter()
        self._counter.value += writes

    def _is_view(self) -> bool:
        """Return whether autograd treats it as a view of another tensor."""
        return self._base is not None

    def _alias(self, cls: type | None = None) -> Tensor:
        """Return a detached tensor of class `cls` with the same memory and version counter."""
        result: Tensor = _new_object(cls or Tensor)
        if cls is not None:
            _TensorType.instantiated(cls)
        result._array = self._array
        result._requires_grad = result._tracked = False
        result._node = result._grad = result._base = result._stamp = None
        counter = self._counter
        if counter is None:
            counter = self._counter = VersionCounter()
        result._counter = counter
        return result

    @property
    def data(self) -> Tensor:
        """The same memory outside the graph: writes through it are not counted for backward.

        >>> x = torch.ones(2, requires_grad=True)
        >>> x.data *= 3  # a leaf that requires grad may not be written to otherwise
        >>> x
        tensor([3., 3.], requires_grad=True)
        """
        return _share(self) if self.__class__ is Tensor else _share_within_class(self)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if value._array.dtype.kind not in "fcV" and self._requires_grad:
            raise RuntimeError("data set to a tensor that requires gradients must be floating "
                               "point or complex dtype")
        if (self._array.strides is None) != (value._array.strides is None):  # one of them is sparse
            raise RuntimeError("Attempted to call `variable.set_data(tensor)`, but `variable` and "
                               "`tensor` have incompatible tensor type.")
        self._array = value._array

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    # ---------------------------------------------------------------- Python protocols

    def __len__(self) -> int:
        shape = self._array.shape
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return shape[0]

    def __bool__(self) -> bool:
        array = self._array
        if array.size != 1:
            if array.size == 0:
                raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
            error = RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
            raise add_notes(error, f"It has {array.size}. For one answer: x.any(), x.all(); for an "
                               "answer each: torch.where().")
        return bool(self.item())

    def item(self) -> Any:
        """Return the only element as a Python number; RuntimeError if there are more or none.

        >>> torch.tensor([[2.5]]).item()
        2.5
        """
        array: Any = self._array
        if array.__class__ is not np.ndarray:
            if array.__class__ is not LazyWindow:
                raise RuntimeError("Tensor.item() cannot be called on meta tensors")
            array = array.resolved()
        if array.size != 1:
            raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
        value = array.item()
        return value if array.dtype.kind != "V" else convert_to_number(value)

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers.

        >>> torch.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        array: Any = self._array
        if array.__class__ is not np.ndarray:
            if array.__class__ is not LazyWindow:
                raise build_unreadable_error(self)
            array = array.resolved()
        if array.dtype.kind == "V":
            array = widen(array) if array.dtype in NARROW else array.astype(np.float32)
        return array.tolist()

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return format_tensor(self, tensor_contents=tensor_contents)

    def __format__(self, spec: str) -> str:
        if self._array.ndim == 0 and not self.is_meta and type(self) is Tensor:
            return self.item().__format__(spec)
        return object.__format__(self, spec)


def _share(x: Tensor) -> Tensor:
    """Return a plain tensor without history on the same memory."""
    result = wrap(get_memory(x._array))
    result._array = x._array
    return result


def _share_within_class(x: Tensor) -> Tensor:
    """Return `_share(x)`, or what a class with `__torch_dispatch__` detaches, counted anew."""
    if type(x).__torch_dispatch__ is Tensor.__torch_dispatch__:
        return _share(x)
    result = x.detach()
    result._counter = None
    return result


def wrap_storage(
    storage: UntypedStorage, kind: dtype, offset: int, shape: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    """Return a tensor on an existing storage; offset and stride are in elements."""
    return wrap(window(storage, kind.numpy, offset, shape, stride))


def attach(**attributes: Any) -> None:
    """Add methods and properties to Tensor, for the layers above."""
    for name, attribute in attributes.items():
        setattr(Tensor, name, attribute)


_new_object = object.__new__
_asarray = np.asarray
_WINDOWS = (np.ndarray, BatchedWindow)  # windows that a plain tensor uses without conversion


def wrap(array: np.ndarray) -> Tensor:
    """Wrap `array` in a plain tensor: a leaf that does not require grad."""
    result = _new_object(Tensor)
    result._array = array if isinstance(array, _WINDOWS) else _asarray(array)
    result._requires_grad = result._tracked = False
    result._node = result._grad = result._counter = result._base = None
    result._stamp = creation.stamp
    return result


class GradReads:
    """Counts reads of `.grad`, whose result the reader may keep."""

    count = 0


def view_of(source: Tensor, array: np.ndarray) -> Tensor:
    """Return a view of `source` on `array`, which shares its memory and version counter."""
    result = _new_object(Tensor)
    result._array = array
    result._requires_grad = False
    result._tracked = True
    result._node = result._grad = None
    counter = source._counter
    if counter is None:
        counter = source._counter = VersionCounter()
    result._counter = counter
    base, stamp = source._base, source._stamp
    if base is None:
        base = source
    result._base = base
    if stamp.__class__ is not int:  # windows/view_origins.py
        stamp = base._node if creation.mode.grad else \
            counter.value << 2 | (creation.stamp is INFERENCE)
    result._stamp = stamp
    return result
