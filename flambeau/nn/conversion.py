"""Change the dtype or device of everything a module owns, in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..autograd import no_grad
from ..native.foundation.public_names import c_class_name, class_name
from ..native.foundation.user_frames import warn
from ..tensor import Tensor, dtype
from ..tensor import device as device_type
from ..tensor.dtypes import as_dtype
from ..tensor.layout import memory_format as memory_format_type
from ..tensor.size import Size
from .members import Members
from .parameter import Parameter, is_lazy


class ConversionPolicy:
    """Settings of torch.__future__: whether conversions create new parameters."""

    overwrite = False
    swap = False


class Conversion(Members):
    """The part of Module that converts parameters, gradients and buffers."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Replace every tensor by fn(tensor); parameters stay the same objects if possible."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = _convert_parameter(parameter, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move to a device, to a floating dtype, or to both; `to(tensor)` takes the tensor's.

        Integer tensors keep their dtype. `memory_format` applies to tensors with 4 or 5 axes.
        """
        device, dtype, non_blocking, memory_format = parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warn(
                "Complex modules are a new feature under active development whose design may "
                "change, and some modules might not work as expected when using complex tensors as "
                "parameters or buffers.",
            )

        def convert(tensor: Tensor) -> Tensor:
            target_dtype = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            options = {}
            if memory_format is not None and tensor.dim() in (4, 5):
                options["memory_format"] = memory_format
            try:
                return tensor.to(device, target_dtype, non_blocking, **options)
            except NotImplementedError as error:
                if str(error) != "Cannot copy out of meta tensor; no data!":
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to()"
                    " when moving module from meta to a different device."
                ) from None

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """Move to a device without copying values: all are uninitialized afterwards."""

        def empty(tensor: Tensor) -> Tensor:
            if device is None or not tensor.is_meta:  # keeps the memory format
                return ops.empty_like(tensor, device=device)
            return ops.empty(tensor.shape, dtype=tensor.dtype, device=device)

        return self._apply(empty, recurse=recurse)

    def type(self, dst_type: dtype | str) -> Any:
        """Cast all parameters and buffers."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Any:
        """Cast floating parameters and buffers to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Any:
        """Cast floating parameters and buffers to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Any:
        """Cast floating parameters and buffers to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Any:
        """Cast floating parameters and buffers to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def cpu(self) -> Any:
        """Move to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Any:
        """Move to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def ipu(self, device: Any = None) -> Any:
        """Move to an IPU, a device that flambeau does not support."""
        return self._apply(lambda t: t.to(device_type("ipu", device or 0)))

    def xpu(self, device: Any = None) -> Any:
        """Move to an XPU, a device that flambeau does not support."""
        return self._apply(lambda t: t.to(device_type("xpu", device or 0)))

    def mtia(self, device: Any = None) -> Any:
        """Move to an MTIA accelerator, a device that flambeau does not support."""
        return self._apply(lambda t: t.to(device_type("mtia", device or 0)))

    def share_memory(self) -> Any:
        """Move parameters and buffers to shared memory."""
        return self._apply(lambda t: t.share_memory_())


def _convert_parameter(parameter: Parameter, fn: Callable[[Tensor], Tensor]) -> Parameter:
    """Apply fn to a parameter and its gradient; a new object only if device or policy requires."""
    with no_grad():
        applied = fn(parameter)
    grad = parameter.grad
    with no_grad():
        applied_grad = None if grad is None else fn(grad)
    same_device = parameter.is_meta == applied.is_meta
    if is_lazy(parameter) or (same_device and not ConversionPolicy.overwrite):
        parameter.data = applied
        if grad is not None and applied_grad is not None:
            grad.data = applied_grad
        return parameter
    result = Parameter(applied, parameter.requires_grad)
    if grad is not None and applied_grad is not None:
        result.grad = applied_grad.requires_grad_(grad.requires_grad)
    return result


_TO_SIGNATURES = """
 * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = \
False, *, torch.memory_format memory_format = None)
 * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format \
memory_format = None)
 * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format \
memory_format = None)
"""


def _is_dtype(x: Any) -> bool:
    return isinstance(as_dtype(x), dtype)


# What each parameter of the signatures accepts. A number, but an int, is a tensor of its type.
_ACCEPTS: dict[str, Callable[[Any], bool]] = {
    "device": lambda x: x is None or x.__class__ is int or isinstance(x, (str, device_type)),
    "optional dtype": lambda x: x is None or _is_dtype(x),
    "dtype": _is_dtype,
    "tensor": lambda x: isinstance(x, (Tensor, bool, float, complex)),
    "non_blocking": lambda x: isinstance(x, bool),
    "copy": lambda x: isinstance(x, bool),
    "memory_format": lambda x: x is None or isinstance(x, memory_format_type),
}
_FLAGS = ("non_blocking", "copy")
_ORDERS = (("device", "optional dtype", *_FLAGS), ("dtype", *_FLAGS), ("tensor", *_FLAGS))


def parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Parse the three call forms of `to`; return (device, dtype, non_blocking, memory format)."""
    if len(args) > len(_ORDERS[0]):
        raise TypeError(f"to() takes from 0 to 4 positional arguments but {len(args)} were given")
    bound = next(filter(None, (_bind_to(order, args, kwargs) for order in _ORDERS)), None)
    if bound is None and (args or kwargs):
        positional = [_name_class(x) for x in args]
        named = [f"{name}={_name_class(x)}" for name, x in reversed(kwargs.items())]
        got = ", ".join([*positional, *named]) + (", " if not args else "")
        raise TypeError(f"to() received an invalid combination of arguments - got ({got}), but "
                        f"expected one of:{_TO_SIGNATURES}")
    values = bound or {}
    if "copy" in values:
        raise RuntimeError(".to() does not accept copy argument")
    target = values.get("tensor")
    device: Any
    if isinstance(target, Tensor):
        device, target_dtype = target.device, target.dtype
    elif target is not None:
        device, target_dtype = device_type("cpu"), as_dtype(type(target))
    else:
        device, target_dtype = values.get("device"), as_dtype(values.get("dtype"))
    device = None if device is None else device_type(device)
    return device, target_dtype, values.get("non_blocking", False), values.get("memory_format")


def _name_class(x: Any) -> str:
    """Return what PyTorch calls an argument's class: with its module if that is written in C."""
    in_c = isinstance(x, (dtype, device_type, memory_format_type, Size))
    return class_name(type(x)) if in_c else c_class_name(x)


def _bind_to(order: tuple, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments by name if they fit one signature of `to`."""
    names = dict(zip((kind.removeprefix("optional ") for kind in order), order, strict=True))
    values = dict(zip(names, args, strict=False))
    if len(args) > len(names) or not values.keys().isdisjoint(kwargs):
        return None
    values |= kwargs
    names["memory_format"] = "memory_format"
    if not all(name in names and _ACCEPTS[names[name]](x) for name, x in values.items()):
        return None
    return values if not {"tensor", "dtype"} & set(order) or order[0] in values else None
