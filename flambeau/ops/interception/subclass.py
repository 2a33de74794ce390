"""Subclasses of Tensor: as_subclass, _make_subclass, wrappers, the default `__torch_function__`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...autograd import engine, grad
from ...autograd.backward import require_gradients
from ...tensor.devices import device as _device
from ...tensor.tensor import Tensor, _TensorType
from ..core.operator import PUBLIC, publish
from ..creation.interchange import construct
from . import torch_function
from .torch_dispatch import dispatches
from .torch_function import STATE
from .wrapper_metadata import let_class_answer


class DisableTorchFunctionSubclass:
    """Context in which calls do not dispatch to the classes of their arguments.

    >>> with torch._C.DisableTorchFunctionSubclass():
    ...     torch.ones(2).sum()
    tensor(2.)
    """

    def __enter__(self) -> None:
        STATE.no_subclasses += 1

    def __exit__(self, *exception: object) -> None:
        STATE.no_subclasses -= 1


class DisableTorchFunction:
    """Context in which calls dispatch neither to the classes of their arguments nor to modes."""

    def __enter__(self) -> None:
        STATE.no_subclasses += 1
        STATE.nothing += 1

    def __exit__(self, *exception: object) -> None:
        STATE.no_subclasses -= 1
        STATE.nothing -= 1


class EnableTorchFunction:
    """Context that enables dispatch to modes and classes inside a region that disables it."""

    def __init__(self) -> None:
        self._before = STATE.no_subclasses, STATE.nothing, STATE.inside
        STATE.no_subclasses, STATE.nothing, STATE.inside = 0, 0, False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        STATE.no_subclasses, STATE.nothing, STATE.inside = self._before

    __del__ = __exit__


# The slots that hold a tensor's state.
_SLOTS = [name for name in Tensor.__slots__ if not name.startswith("__")]


def as_subclass(self: Tensor, cls: type) -> Tensor:
    """Return the tensor as an instance of `cls`, sharing its memory and history.

    >>> class Celsius(torch.Tensor):
    ...     pass
    >>> type(torch.zeros(2).as_subclass(Celsius)).__name__
    'Celsius'
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"cls must be a type that inherits from torch.Tensor, got {cls!r}")
    _check_not_owned(self, cls)
    with DisableTorchFunction():
        result: Tensor = Tensor.view_as(self, self)
    try:
        result.__class__ = cls
    except TypeError:  # a class that defines slots
        plain, result = result, object.__new__(cls)
        for name in _SLOTS:
            setattr(result, name, getattr(plain, name))
    torch_function.meet(cls)
    return result


def _check_not_owned(data: Tensor, cls: type) -> None:
    """Raise RuntimeError for a tensor whose class would see no more calls as one of `cls`."""
    owner = type(data)
    if dispatches(owner) and not issubclass(owner, cls) and not issubclass(cls, owner):
        raise RuntimeError(
            f"Creating a new Tensor subclass {cls.__name__} but the raw Tensor object is already "
            f"associated to a python object of type {owner.__name__}")


def _make_subclass(
    cls: type, data: Tensor, require_grad: bool = False, *,
    dispatch_sizes_strides_policy: Any = None, dispatch_device: bool = False,
    dispatch_layout: bool = False, device_for_backend_keys: Any = None,
) -> Tensor:
    """Return an object of `cls` on the memory of `data`, a leaf."""
    _check_not_owned(data, cls)
    result = data._alias(cls)
    with DisableTorchFunction():
        require_gradients(result, require_grad)
    let_class_answer(result, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)
    return result


def make_wrapper_subclass(
    cls: type, size: Sequence[int], strides: Any = None, storage_offset: Any = None,
    memory_format: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
    dispatch_sizes_strides_policy: Any = None, dispatch_device: bool = False,
    dispatch_layout: bool = False, _extra_dispatch_keys: Any = None, storage_size: Any = None,
) -> Tensor:
    """Return an object of `cls` with a shape and dtype but no memory; its class runs its operators.

    `dispatch_sizes_strides_policy` ("sizes" or "strides"), `dispatch_device` and
    `dispatch_layout`: what the class answers in `__torch_dispatch__`. Raises TypeError for a
    class without one.
    """
    if not dispatches(cls):
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    plain = PUBLIC["torch"]["empty"](tuple(size), dtype=dtype, device="meta")
    if strides is not None or storage_offset:
        own = plain.stride() if strides is None else tuple(strides)
        plain._array.layout = own, storage_offset or 0
    result = plain._alias(cls)
    result._requires_grad = result._tracked = requires_grad
    result.__dict__["_flambeau_device"] = _device("cpu" if device is None else device)
    let_class_answer(result, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)
    return result


def _torch_function(
    cls: type, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call the function and convert its result's tensors to the class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        unchanged = cls is Tensor or func in default_nowrap_functions()
        return result if unchanged else _convert(result, cls)


def default_nowrap_functions() -> set[Any]:
    """Return the accessors whose results the default `__torch_function__` does not convert."""
    return {torch_function.list_properties()["grad"].__get__}


def _convert(result: Any, cls: type) -> Any:
    """Convert the tensors of a result, also in tuples and lists, to the class."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else as_subclass(result, cls)
    if isinstance(result, (tuple, list)):
        parts = [_convert(part, cls) for part in result]
        if hasattr(result, "_fields"):
            return type(result)(*parts)
        return type(result)(parts)
    return result


def _construct(cls: type, *args: Any, **named: Any) -> Tensor:
    """`cls(tensor)`, and the other constructors of a class."""
    if cls is not Tensor and len(args) == 1 and isinstance(args[0], Tensor):
        _check_not_owned(args[0], cls)
    return construct(cls, *args, **named)


publish(as_subclass, ("as_subclass",), ("Tensor",))
_methods: Any = Tensor
_methods._make_subclass = staticmethod(_make_subclass)
_methods._make_wrapper_subclass = staticmethod(make_wrapper_subclass)
_methods.__torch_function__ = classmethod(_torch_function)
_TensorType.instantiated = staticmethod(torch_function.meet)
_TensorType.construct = staticmethod(_construct)
_run: Any = engine.run
torch_function.INTERNAL.append(_run)
torch_function.NAMESPACES.append({"grad": grad})
