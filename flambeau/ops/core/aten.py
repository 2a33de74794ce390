"""torch.ops.aten: operators by their names in PyTorch's dispatcher.

`torch.ops.aten.add.Tensor(a, b)` is `torch.add(a, b)`: overloads are told apart by arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd.backward import require_gradients
from ...tensor.tensor import Tensor
from .errors import MISSING, Overriding
from .operator import OPERATORS, PUBLIC, Kind
from .registry import writes_by_operators

# "aten": operators that PyTorch has only there.
_SPACES = ("aten", "torch", "nn.functional", "special", "linalg", "Tensor")
_PREFIXES = ("special_", "linalg_", "fft_")


def look_up(name: str, namespace: str = "aten") -> Callable[..., Any] | None:
    """Return flambeau's function of this name."""
    if namespace != "aten":
        return PUBLIC[namespace].get(name)
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return PUBLIC[prefix[:-1]].get(name.removeprefix(prefix))
    for space in _SPACES:
        if name in PUBLIC.get(space, ()):
            return PUBLIC[space][name]
    return getattr(Tensor, name, None)


def _find_recording_class(args: tuple) -> Any:
    """Return the class of the first non-tensor argument that defines `__torch_function__`."""
    for value in args:
        if not isinstance(value, Tensor) and hasattr(type(value), "__torch_function__"):
            return type(value)
    return None


# Their second argument is a list of tensors and Nones.
_TAKE_INDICES = frozenset(
    "index index_put index_put_ _unsafe_index _unsafe_index_put _index_put_impl_".split())


def _list_indices(name: str, args: tuple) -> tuple:
    """Return the arguments with a tensor in the place of a list of indices as the list of its rows,
    which modes and graphs see."""
    if name not in _TAKE_INDICES or len(args) < 2 or not isinstance(args[1], Tensor):
        return args
    return args[0], list(args[1].unbind(0)), *args[2:]


class Overload:
    """One overload of an operator: callable, and a key for tables of operators."""

    def __init__(self, packet: Packet, name: str) -> None:
        self.overloadpacket, self._overloadname = packet, name
        self.namespace = packet.namespace
        self.__name__ = f"{packet.__name__}.{name}"
        self.__module__ = f"torch._ops.{packet.namespace}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kind = _find_recording_class(args)  # proxies and their like want the overload
        if kind is not None:
            return kind.__torch_function__(self, (kind,), args, kwargs)
        args = _list_indices(self.overloadpacket.__name__, args)
        result = Overriding.ask_mode(self, args, kwargs)
        return self.overloadpacket.run(args, kwargs) if result is MISSING else result

    @property
    def _schema(self) -> Any:
        """Its schema. Raises AttributeError if PyTorch has no such overload."""
        schema = Packet.schemas_of(self.overloadpacket.__name__).get(self._overloadname)
        if schema is None:
            raise AttributeError(f"aten.{self.__name__} has no schema")
        return schema

    @property
    def tags(self) -> list[Any]:
        """Its properties, such as torch.Tag.pointwise."""
        return Packet.tags_of(self.__name__.removesuffix(".default"))

    @property
    def _defined_in_python(self) -> bool:
        return False

    def name(self) -> str:
        """Return `aten::add.Tensor`, without `.default`."""
        return f"{self.namespace}::{self.__name__.removesuffix('.default')}"

    @property
    def _name(self) -> str:
        return self.name()

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the operators of which this one is composed; NotImplemented if it is
        composed of none.

        >>> torch.ops.aten.add.Tensor.decompose(torch.ones(2), torch.ones(2))
        NotImplemented
        """
        declared = OPERATORS.get(self.overloadpacket.__name__)
        if declared is None or declared.kind is not Kind.COMPOSITE:
            return NotImplemented
        return self(*args, **kwargs)

    def __deepcopy__(self, memo: Any) -> Overload:
        return self

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self.overloadpacket.__name__}', " \
               f"overload='{self._overloadname}')>"


class Packet:
    """An operator with its overloads as attributes."""

    # By an operator's name, its schemas by overload; by an overload's, its tags. Both are set by
    # flambeau/ops/__init__.py.
    schemas_of: Callable[[str], dict[str, Any]]
    tags_of: Callable[[str], list[Any]]

    def __init__(self, name: str, namespace: str = "aten") -> None:
        self.__name__, self.namespace = name, namespace
        self.__module__ = f"torch._ops.{namespace}"

    @property
    def op(self) -> Packet:
        """The function that chooses an overload: the packet itself."""
        return self

    def __deepcopy__(self, memo: Any) -> Packet:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kind = _find_recording_class(args)
        if kind is not None:
            return kind.__torch_function__(self, (kind,), args, kwargs)
        args = _list_indices(self.__name__, args)
        result = Overriding.ask_mode(self, args, kwargs)
        return self.run(args, kwargs) if result is MISSING else result

    def run(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Return the result of flambeau's function of this name."""
        function = self.__dict__.get("own") or look_up(self.__name__, self.namespace) \
            or self.__dict__.get("fallback")
        if function is None:
            raise NotImplementedError(
                f"torch.ops.{self.namespace}.{self.__name__} is not implemented in flambeau"
            )
        return function(*args, **kwargs)

    def __getattr__(self, name: str) -> Overload:
        if name.startswith("_"):
            raise AttributeError(name)
        result = Overload(self, name)
        setattr(self, name, result)
        return result

    def overloads(self) -> list[str]:
        """Return the names of the overloads: those that optimizers ask for if PyTorch has none."""
        return list(Packet.schemas_of(self.__name__)) or [
            "Scalar", "List", "ScalarList", "Tensor", "default"]

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self.namespace}.{self.__name__}')>"


class Namespace:
    """`torch.ops.aten`: one packet per operator name."""

    def __init__(self, name: str) -> None:
        self.__dict__["__name__"] = f"torch.ops.{name}"

    def __getattr__(self, name: str) -> Packet:
        if name.startswith("__"):
            raise AttributeError(name)
        result = Packet(name, self.__name__.rpartition(".")[2])
        setattr(self, name, result)
        return result


aten, prim = Namespace("aten"), Namespace("prim")


# ------------------------------------------------------------- operators that only aten has


def _index(self: Tensor, indices: Any) -> Tensor:
    return self[tuple(slice(None) if i is None else i for i in indices)]


def _create_in_place(name: str) -> Callable[..., Any]:
    def operator(self: Tensor, *args: Any) -> Any:
        return PUBLIC["nn.functional"][name](self, *args, inplace=True)

    return operator


def _normalize(name: str) -> Callable[..., Any]:
    def operator(self: Tensor, dim: int, half_to_float: bool) -> Any:
        x = PUBLIC["torch"][name](self, dim)
        return x.float() if half_to_float else x

    return operator


def _batch_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor,
    momentum: float, eps: float,
) -> Any:
    y = PUBLIC["nn.functional"]["batch_norm"](
        input, running_mean, running_var, weight, bias, False, momentum, eps
    )
    return y, input.new_empty(0), input.new_empty(0)


def _assert_scalar(self: Any, assert_msg: str) -> None:
    if not self:
        raise RuntimeError(assert_msg)


PUBLIC.setdefault("aten", {}).update(
    _assert_scalar=_assert_scalar, lift_fresh_copy=lambda self: self.clone(),
    index=_index, _local_scalar_dense=Tensor.item,
    _softmax=_normalize("softmax"), _log_softmax=_normalize("log_softmax"),
    _native_batch_norm_legit_no_training=_batch_norm,
    _adaptive_avg_pool2d=lambda self, output_size: PUBLIC["nn.functional"]["adaptive_avg_pool2d"](
        self, output_size),
    _unsafe_view=lambda self, size: self.reshape(size),
    requires_grad_=writes_by_operators(require_gradients),  # not refused within transforms
)
for _name in ("elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "relu", "relu6",
              "selu", "silu"):
    PUBLIC["aten"][f"{_name}_"] = writes_by_operators(_create_in_place(_name))
