"""FakeTensor: a tensor with a device but no values, for running programs to infer shapes."""

from __future__ import annotations

from typing import Any, NoReturn

from ..ops.core.operator import PUBLIC
from ..tensor.devices import device as _device
from ..tensor.devices import get_default_device
from ..tensor.size import Size
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from ..utils._python_dispatch import TorchDispatchMode

__all__ = ["DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor",
           "FakeTensorMode", "UnsupportedFakeTensorException", "is_fake"]

_VALUES = frozenset(("item", "_local_scalar_dense", "equal"))


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


class FakeTensor(Tensor):
    """A tensor of a FakeTensorMode. `fake_mode`: the mode; `fake_device`: its pretended device."""

    fake_mode: FakeTensorMode
    fake_device: Any
    _elem: Tensor
    _sizes: tuple[Any, ...] | None

    @staticmethod
    def __new__(cls: Any, fake_mode: FakeTensorMode, elem: Tensor, device: Any = None,
                sizes: tuple[Any, ...] | None = None, **options: Any) -> Any:
        """Create a fake of a tensor on the meta device. `sizes`: its shape, if symbolic."""
        make: Any = Tensor._make_wrapper_subclass
        result = make(cls, tuple(map(int, elem.shape)), dtype=elem.dtype,
                      device=_device("cpu" if device is None else device),
                      requires_grad=elem.requires_grad)
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
        kind = "" if str(self.dtype) == "torch.float32" else f", dtype={self.dtype}"
        return f"FakeTensor(..., size=({sizes}{',' if len(self.shape) == 1 else ''}){kind})"

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

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator for its shapes."""
        return self.run(func, args, kwargs or {})

    def from_tensor(self, tensor: Tensor, **options: Any) -> FakeTensor:
        """Return the fake of a tensor."""
        if isinstance(tensor, FakeTensor):
            return tensor
        fake: FakeTensor = FakeTensor(self, _on_meta(tensor), tensor.device)
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
            place = fakes[0].device if fakes else get_default_device()
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
