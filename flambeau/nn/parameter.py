"""Parameter and Buffer: the tensors that a Module owns, and their lazy forms without a shape.

A Parameter is a leaf that requires grad and shares the memory of its source. Results computed from
it are plain Tensors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from .. import ops
from ..autograd.backward import require_gradients
from ..native.foundation.user_frames import add_notes
from ..ops.core.errors import RefusedValue
from ..ops.interception.torch_function import _disabled_torch_function_impl
from ..tensor import Tensor
from ..tensor.layout import preserve_format
from ..tensor.printing import prints_as_tensor
from ..tensor.tensor import _TensorType

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter",
    "UninitializedTensorMixin", "is_lazy",
]


class _ParameterType(_TensorType):
    """Call the classes' `__new__`, and recognize parameters of other classes by their mark."""

    __call__ = type.__call__

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and _is_marked(
            instance, "_is_param"
        )


def _is_marked(tensor: Tensor, mark: str) -> bool:
    return tensor.__dict__.get(mark, False)


@prints_as_tensor
class Parameter(Tensor, metaclass=_ParameterType):
    """A tensor that a Module lists among its parameters once it is assigned to an attribute.

    Shares the memory of `data`. Keeps requires_grad=True even under `no_grad`.

    >>> nn.Parameter(torch.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    __torch_function__ = _disabled_torch_function_impl  # results are plain Tensors

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = ops.empty(0)
        if requires_grad and data._array.dtype.kind not in "fcV":
            raise add_notes(
                RuntimeError(
                    "Only Tensors of floating point and complex dtype can require gradients"),
                f"This one is of dtype {data.dtype}: requires_grad=False, or data.float().",
            )
        if data.__class__ is Tensor or data.__class__ is Parameter:
            return require_gradients(data._alias(cls), requires_grad)
        result: Any = data.detach()
        result.requires_grad = requires_grad
        actual = type(result)
        if actual is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires "
                "that detach() returns an instance of the same type, but return type "
                f"{actual.__name__} was found instead. To use the type as a Parameter, "
                "please correct the detach() semantics defined by its __torch_dispatch__() "
                "implementation.")
        result._is_param = True
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(_copy_data(self), self.requires_grad)
        return memo[id(self)]

    # mypy loses the names of special methods' keyword arguments.
    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        shown: Any = super().__repr__
        return "Parameter containing:\n" + shown(tensor_contents=tensor_contents)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        attributes = {k: v for k, v in self.__dict__.items() if k not in _UNPICKLED}
        hooks: OrderedDict[str, Any] = OrderedDict()
        state = (self.data, self.requires_grad, hooks)
        if attributes:
            return _rebuild_parameter_with_state, (*state, attributes)
        return _rebuild_parameter, state


# Attributes that autograd sets on a tensor belong to the process, not to the tensor's value.
_UNPICKLED = frozenset(
    {"_accumulator", "_backward_hooks", "_post_accumulate_grad_hooks", "_retained"}
)


def _copy_data(tensor: Tensor) -> Tensor:
    return tensor.data.clone(memory_format=preserve_format)


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    """Rebuild a pickled Parameter."""
    result = Parameter(data, requires_grad)
    if backward_hooks:
        result.__dict__["_backward_hooks"] = backward_hooks
    return result


def _rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any
) -> Parameter:
    """Rebuild a pickled Parameter with the attributes the user had set on it."""
    result = _rebuild_parameter(data, requires_grad, backward_hooks)
    result.__dict__.update(state[0] if isinstance(state, tuple) else state)
    return result


class _BufferType(_TensorType):
    """A Buffer is a plain Tensor with a mark; `isinstance` checks the mark."""

    __call__ = type.__call__

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and _is_marked(instance, "_is_buffer")


class Buffer(Tensor, metaclass=_BufferType):
    """A tensor that a Module registers as a buffer once it is assigned to an attribute.

    Shares the memory of `data`. With persistent=False it is left out of the state_dict.

    >>> module = nn.Module()
    >>> module.count = nn.Buffer(torch.zeros(()))
    >>> module.state_dict()
    OrderedDict([('count', tensor(0.))])
    """

    __torch_function__ = _disabled_torch_function_impl  # results are plain Tensors
    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = ops.empty(0)
        result: Any = data.detach()
        result.requires_grad = data.requires_grad
        result.persistent = persistent
        result._is_buffer = True
        return result


def is_lazy(param: Any) -> bool:
    """Whether this is a parameter or buffer without a shape, as in lazy modules.

    >>> nn.parameter.is_lazy(nn.LazyLinear(2).weight), nn.parameter.is_lazy(nn.Linear(3, 2).weight)
    (True, False)
    """
    return isinstance(param, UninitializedTensorMixin)


_WINDOW: Any = Tensor.__dict__["_array"]  # the slot hidden by the mixin's property


class UninitializedTensorMixin:
    """A tensor without a shape: its dtype and device can change, and it can be materialized.

    Every operator reads `_array`, so the property that replaces it refuses all operators.

    >>> issubclass(nn.UninitializedParameter, nn.parameter.UninitializedTensorMixin)
    True
    """

    __slots__ = ()
    cls_to_become: type
    requires_grad: bool  # provided by the tensor class

    @property
    def _array(self) -> Any:
        raise RefusedValue(
            "Attempted to use an uninitialized parameter in an operator. This error happens when "
            "you are using a `LazyModule` or explicitly manipulating "
            f"`torch.nn.parameter.{type(self).__name__}` objects. When using LazyModules call "
            "`forward` with a dummy batch to initialize the parameters before calling torch "
            "functions"
        )

    @_array.setter
    def _array(self, array: Any) -> None:
        _WINDOW.__set__(self, array)

    @property
    def data(self) -> Tensor:
        """An empty tensor of the same dtype and device."""
        return self._alias_of_window()

    @data.setter
    def data(self, value: Tensor) -> None:
        _WINDOW.__set__(self, value._array)

    def _alias_of_window(self) -> Tensor:
        result = ops.empty(0)
        result._array = _WINDOW.__get__(self)
        return result

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    dtype = property(lambda self: self.data.dtype)
    device = property(lambda self: self.data.device)
    is_meta = property(lambda self: self.data.is_meta)

    def size(self, dim: int | None = None) -> Any:
        """(0,): the shape is not known yet."""
        return self.data.size() if dim is None else self.data.size(dim)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Set whether it will require grad once it has a shape."""
        tensor: Any = self  # a tensor, which has these slots
        tensor._requires_grad = tensor._tracked = bool(requires_grad)
        return self

    def is_floating_point(self) -> bool:
        """Whether its dtype is floating."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether its dtype is complex."""
        return self.dtype.is_complex

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """An empty tensor of another dtype or device."""
        return self.data.to(*args, **kwargs)

    def copy_(self, source: Tensor, non_blocking: bool = False) -> Any:
        """Copy from another tensor without a shape; there are no values to copy."""
        self.data.copy_(source.data, non_blocking)
        return self

    def materialize(self, shape: Sequence[int], device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer of this shape, with uninitialized values."""
        stored = self.data
        device = stored.device if device is None else device
        dtype = stored.dtype if dtype is None else dtype
        self.data = ops.empty(shape, device=device, dtype=dtype)
        _TensorType.instantiated(self.cls_to_become)
        self.__class__ = self.cls_to_become

    def share_memory_(self) -> Any:
        """Raise: there is no memory yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self.requires_grad,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            cls: Any = type(self)
            memo[id(self)] = cls(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]


def _create_conversion(name: str) -> Any:
    def convert(self: Any, *args: Any) -> Tensor:
        return getattr(self.data, name)(*args)

    convert.__name__ = name
    convert.__doc__ = f"An empty tensor, after `{name}`."
    return convert


for _name in ("half", "float", "double", "bfloat16", "char", "short", "int", "long", "cpu", "cuda"):
    setattr(UninitializedTensorMixin, _name, _create_conversion(_name))


def _without_shape(cls: type, requires_grad: bool, device: Any, dtype: Any) -> Any:
    result = ops.empty(0, device=device, dtype=dtype)._alias(cls)
    return result.requires_grad_(requires_grad)


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A Parameter whose shape a lazy module infers from its first input.

    >>> weight = nn.LazyLinear(8).weight
    >>> weight
    <UninitializedParameter>
    >>> weight.materialize((8, 4))
    >>> weight.shape, weight.requires_grad
    (torch.Size([8, 4]), True)
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return _without_shape(cls, requires_grad, device, dtype)


class UninitializedBuffer(  # type: ignore[misc]
    UninitializedTensorMixin, Tensor, metaclass=_BufferType
):
    """A buffer whose shape a lazy module infers from its first input.

    >>> buffer = nn.parameter.UninitializedBuffer()
    >>> buffer.materialize((2, 3))
    >>> buffer.shape, buffer.requires_grad
    (torch.Size([2, 3]), False)
    """

    cls_to_become = Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> Any:
        result = _without_shape(cls, requires_grad, device, dtype)
        result.persistent = persistent
        result._is_buffer = True
        return result
