"""FakeTensor: a tensor with a device but no values, for running programs to infer shapes."""

from __future__ import annotations

from typing import Any, NoReturn

from ..nn.parameter import Parameter
from ..ops.core.operator import PUBLIC
from ..tensor.devices import device as _device
from ..tensor.devices import get_default_device
from ..tensor.dtypes import get_default_dtype
from ..tensor.layout import strided
from ..tensor.size import Size
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from ..utils._python_dispatch import TorchDispatchMode
from ..utils.weak import WeakIdKeyDictionary

__all__ = ["DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor",
           "FakeTensorDeviceMismatchError", "FakeTensorMode", "UnsupportedFakeTensorException",
           "is_fake"]

_VALUES = frozenset(("item", "_local_scalar_dense", "equal"))
# Operators whose arguments may be on several devices.
_ACROSS_DEVICES = frozenset((
    "copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index",
    "to", "set_",
))


class UnsupportedFakeTensorException(RuntimeError):
    """An operator that fake tensors do not support."""


class DataDependentOutputException(RuntimeError):
    """An operator whose result depends on values, which fake tensors lack. `func`: the operator."""

    def __init__(self, func: Any) -> None:
        super().__init__(str(func))
        self.func = func


class DynamicOutputShapeException(RuntimeError):
    """An operator whose result's shape depends on values, which fake tensors lack. `func`: the
    operator."""

    def __init__(self, func: Any) -> None:
        super().__init__(str(func))
        self.func = func


class FakeTensorDeviceMismatchError(RuntimeError):
    """A call whose tensors pretend to be on different devices. `func`: the operator."""

    def __init__(self, func: Any, common_device: Any, device: Any) -> None:
        super().__init__("Expected all tensors to be on the same device, but found at least two "
                         f"devices, {common_device} and {device}!")
        self.func, self.common_device, self.device = func, common_device, device


class FakeTensor(Tensor):
    """A tensor of a FakeTensorMode. `fake_mode`: the mode; `fake_device`: its pretended device."""

    fake_mode: FakeTensorMode
    fake_device: Any
    _elem: Tensor
    _is_param: bool
    _sizes: tuple[Any, ...] | None

    @staticmethod
    def __new__(cls: Any, fake_mode: FakeTensorMode, elem: Tensor, device: Any = None,
                sizes: tuple[Any, ...] | None = None, **options: Any) -> Any:
        """Create a fake of a tensor on the meta device. `sizes`: its shape, if symbolic.

        `options`: strides and requires_grad, if they are not those of `elem`.
        """
        make: Any = Tensor._make_wrapper_subclass
        place = _device("cpu" if device is None else device)
        if place.type in ("cuda", "xpu") and place.index is None:
            place = _device(place.type, 0)
        result = make(cls, tuple(map(int, elem.shape)), options.get("strides"), dtype=elem.dtype,
                      device=place, requires_grad=options.get("requires_grad", elem.requires_grad))
        result.__dict__.update(fake_mode=fake_mode, _elem=elem, _sizes=sizes,
                               fake_device=result.device)
        return result

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    @property
    def shape(self) -> Size:
        """The shape, whose lengths may be symbolic."""
        sizes = self.__dict__.get("_sizes")
        return self._elem.shape if sizes is None else tuple.__new__(Size, sizes)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        sizes = ", ".join(map(str, self.shape))
        parts = [] if self.device.type == "cpu" else [f"device='{self.device}'"]
        parts.append(f"size=({sizes}{',' if len(self.shape) == 1 else ''})")
        if self.dtype is not get_default_dtype():
            parts.append(f"dtype={self.dtype}")
        if self.grad_fn is not None:
            parts.append(f"grad_fn=<{self.grad_fn.name()}>")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        text = f"FakeTensor(..., {', '.join(parts)})"
        return f"Parameter({text})" if isinstance(self, Parameter) else text

    def _flambeau_refuse(self, operator: str) -> NoReturn:
        """Raise for an operator whose result's size depends on values."""
        if operator == "aten.equal.default":
            raise DataDependentOutputException(operator)
        raise DynamicOutputShapeException(operator)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run an operator for its shapes."""
        values = pytree.tree_leaves((args, kwargs or {}))
        mode = next(v.fake_mode for v in values if isinstance(v, FakeTensor))
        return mode.run(func, args, kwargs or {})


class FakeTensorMode(TorchDispatchMode):
    """A context in which all new tensors are fake. `from_tensor` makes a fake of a real one.

    >>> from flambeau._subclasses import FakeTensorMode
    >>> with FakeTensorMode():
    ...     x = torch.empty(3, 4)
    >>> x @ x.T
    FakeTensor(..., size=(3, 3))
    """

    def __init__(
        self, *, allow_fallback_kernels: bool = True, allow_non_fake_inputs: bool = False,
        shape_env: Any = None, static_shapes: bool | None = None, export: bool = False,
    ) -> None:
        super().__init__()
        self.allow_non_fake_inputs, self.shape_env = allow_non_fake_inputs, shape_env
        self.static_shapes, self.export = static_shapes, export
        self._fakes = WeakIdKeyDictionary()  # by the tensors of which `from_tensor` made them

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator for its shapes."""
        return self.run(func, args, kwargs or {})

    def from_tensor(self, tensor: Tensor, **options: Any) -> FakeTensor:
        """Return the fake of a tensor, with its strides: one fake for each tensor.

        >>> from flambeau._subclasses import FakeTensorMode
        >>> FakeTensorMode().from_tensor(torch.ones(2, 3).t()).stride()
        (1, 3)
        """
        if isinstance(tensor, FakeTensor):
            return tensor
        known: FakeTensor | None = self._fakes.get(tensor)
        if known is not None:
            return known
        strides = tensor.stride() if tensor.layout is strided else None
        fake: FakeTensor = FakeTensor(self, _on_meta(tensor), tensor.device, strides=strides,
                                      requires_grad=tensor.requires_grad)
        if isinstance(tensor, Parameter):
            fake._is_param = True
        self._fakes[tensor] = fake
        return fake

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return an operator's result as fakes. Raises DataDependentOutputException if it depends
        on values."""
        name = getattr(func, "overloadpacket", func).__name__
        if name in _VALUES:
            raise DataDependentOutputException(func)
        values = pytree.tree_leaves((args, kwargs))
        fakes = [v for v in values if isinstance(v, FakeTensor)]
        place = kwargs.get("device")
        if place is None:
            place = _find_device(func, name, fakes) if fakes else get_default_device()
        originals: dict[int, Any] = {}

        def unwrap(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            elem = value._elem if isinstance(value, FakeTensor) else _on_meta(value)
            originals[id(elem)] = value
            return elem

        def wrap(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            original = originals.get(id(value))
            return FakeTensor(self, value, place) if original is None else original

        args, kwargs = pytree.tree_map(unwrap, (args, kwargs))
        if "device" in kwargs or not any(isinstance(v, Tensor) for v in values):
            kwargs = {**kwargs, "device": "meta"}
        try:
            result = func(*args, **kwargs)
        except (NotImplementedError, RuntimeError) as error:
            name = getattr(error, "operator", None)
            if name is None:
                raise
            raise DynamicOutputShapeException(f"aten.{name}") from error
        return pytree.tree_map(wrap, result)


def _find_device(func: Any, name: str, fakes: list[FakeTensor]) -> Any:
    """Return the device of a call's results: that of its tensors, but for numbers on the CPU.

    Raises FakeTensorDeviceMismatchError if there are two.
    """
    if name in _ACROSS_DEVICES:
        return fakes[0].device
    located = [fake for fake in fakes if fake.dim() or fake.device.type != "cpu"] or fakes
    for fake in located:
        if fake.device != located[0].device:
            raise FakeTensorDeviceMismatchError(func, located[0].device, fake.device)
    return located[0].device


def _on_meta(tensor: Tensor) -> Tensor:
    empty: Any = PUBLIC["torch"]["empty"]
    result: Tensor = empty(tuple(tensor.shape), dtype=tensor.dtype, device="meta")
    return result


def is_fake(x: object) -> bool:
    """Whether a value is a fake tensor.

    >>> from flambeau._subclasses.fake_tensor import is_fake
    >>> is_fake(torch.ones(2))
    False
    """
    return isinstance(x, FakeTensor)
