"""Parametrizations: compute a parameter by modules from an unconstrained original.

`module.weight` becomes a property of a class created for this module; the originals and the modules
that compute it are in `module.parametrizations.weight`.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, ClassVar

from ...autograd import no_grad
from ...tensor import Tensor
from ..module import Module
from ..modules.container import ModuleDict, ModuleList
from ..parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]


class ParametrizationCache:
    """The tensors computed inside `cached()`, by module id and name; `depth` counts blocks."""

    depth = 0
    tensors: ClassVar[dict[tuple[int, str], Tensor]] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once inside: for weights used many times.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> with nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    ParametrizationCache.depth += 1
    try:
        yield
    finally:
        ParametrizationCache.depth -= 1
        if not ParametrizationCache.depth:
            ParametrizationCache.tensors = {}


def _register_parameter_or_buffer(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _set(target: Tensor, source: Tensor) -> None:
    """Make `target` share the memory of `source`, keeping the object."""
    target.data = source.data


def _check_same(old: Tensor, new: Tensor, operation: str, names: tuple[str, str]) -> None:
    """Raise ValueError if dtype or shape changed."""
    for attribute in ("dtype", "shape"):
        old_value, new_value = getattr(old, attribute), getattr(new, attribute)
        if old_value != new_value:
            raise ValueError(
                f"{operation.format(attribute)}, unless the `unsafe` flag is enabled.\n"
                f"{names[0].format(attribute)}: {old_value}\n"
                f"{names[1].format(attribute)}: {new_value}"
            )


def _create_inverse_error(i: int, x: Any) -> ValueError:
    return ValueError(
        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
        f"element {i} of the sequence with type {type(x).__name__}."
    )


class ParametrizationList(ModuleList):
    """The modules that compute one tensor, and its originals.

    A single original is called `original`; several, if right_inverse returns a sequence,
    `original0`, `original1`, ...

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> [name for name, _ in layer.parametrizations.weight.named_parameters()]
    ['original0', 'original1']
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        # A stand-in to compare with: `original` may be changed below.
        before = original.detach()
        with no_grad():
            new = self._invert_where_possible(original)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1
        if isinstance(new, Tensor):
            self._keep_one(original, new)
        else:
            self.ntensors = len(new)
            self._keep_several(original, new)
        if not unsafe:
            self._check_value(before)

    def _invert_where_possible(self, value: Any) -> Any:
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                try:
                    value = module.right_inverse(value)
                except NotImplementedError:  # the value itself is the original
                    pass
        return value

    def _keep_one(self, original: Tensor, new: Tensor) -> None:
        for attribute in ("dtype", "device"):
            was, is_now = getattr(original, attribute), getattr(new, attribute)
            if was != is_now:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {attribute}.\n"
                    f"original.{attribute}: {was}\nright_inverse(original).{attribute}: {is_now}"
                )
        _set(original, new)
        _register_parameter_or_buffer(self, "original", original)

    def _keep_several(self, original: Tensor, new: Sequence[Tensor]) -> None:
        for i, tensor in enumerate(new):
            if not isinstance(tensor, Tensor):
                raise _create_inverse_error(i, tensor)
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            tensor.requires_grad_(original.requires_grad)
            _register_parameter_or_buffer(self, f"original{i}", tensor)

    def _check_value(self, before: Tensor) -> None:
        value = self()
        if not isinstance(value, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
        _check_same(
            before, value,
            "Registering a parametrization may not change the {} of the tensor",
            ("unparametrized {}", "parametrized {}"),
        )

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrized tensor becomes `value`."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                self._assign_one(value)
            else:
                self._assign_several(value)

    def _assign_one(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
        if value.dtype != self.original.dtype:
            raise ValueError(
                f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` "
                f"has dtype {self.original.dtype}"
            )
        _set(self.original, value)

    def _assign_several(self, value: Any) -> None:
        if not isinstance(value, Sequence):
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}."
            )
        if len(value) != self.ntensors:
            raise ValueError(
                "'right_inverse' must return a sequence of tensors of length "
                f"{self.ntensors}. Got a sequence of length {len(value)}."
            )
        for i, tensor in enumerate(value):
            original = getattr(self, f"original{i}")
            if not isinstance(tensor, Tensor):
                raise _create_inverse_error(i, tensor)
            if original.dtype != tensor.dtype:
                raise ValueError(
                    f"Tensor {i} returned by `right_inverse` has dtype {tensor.dtype} while "
                    f"`original{i}` has dtype {original.dtype}"
                )
            _set(original, tensor)

    def forward(self) -> Tensor:
        """Compute the parametrized tensor."""
        first, *modules = self
        if self.is_tensor:
            value = first(self.original)
        else:
            value = first(*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for module in modules:
            value = module(value)
        return value


# Used by copy and pickle; copyreg has no public equivalent.
_slot_names = copyreg._slotnames  # type: ignore[attr-defined]


def _inject_new_class(module: Module) -> None:
    """Give the module a separate class, on which properties can be set."""
    cls = type(module)

    def copied(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        replica = memo[id(self)] = self.__new__(type(self))
        replica.__dict__ = deepcopy(self.__dict__, memo)
        for slot in _slot_names(type(self)):
            if hasattr(self, slot):
                setattr(replica, slot, deepcopy(getattr(self, slot), memo))
        return replica

    def unpicklable(self: Any) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\n"
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
            "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )

    members: dict[str, Any] = {"__getstate__": unpicklable}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = copied
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _inject_property(module: Module, tensor_name: str) -> None:
    """Define the name as a property of the module's class."""

    def get(self: Any) -> Tensor:
        parametrization = self.parametrizations[tensor_name]
        if not ParametrizationCache.depth:
            return parametrization()
        key = (id(self), tensor_name)
        if key not in ParametrizationCache.tensors:
            ParametrizationCache.tensors[key] = parametrization()
        return ParametrizationCache.tensors[key]

    def set_original(self: Any, value: Tensor) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(get, set_original))


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Any:
    """Make `module.tensor_name` the result of `parametrization` on its current value.

    With a method `right_inverse` the tensor can be assigned, and keeps its current value. `unsafe`
    allows a parametrization to change dtype and shape.

    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = nn.Linear(3, 3)
    >>> _ = nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_added(module, tensor_name, parametrization)
        stored = module.parametrizations[tensor_name]
        stored.append(parametrization)
        stored.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        # Check before changing anything in the module.
        result = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = result
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def _check_added(module: Any, name: str, parametrization: Any) -> None:
    """Raise ValueError if an additional parametrization would change dtype or shape."""
    old = getattr(module, name)
    result = parametrization(old)
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
    current = f"module.{name}.{{}}"
    _check_same(
        old, result, "Registering a parametrization may not change the {} of the tensor",
        (current, f"parametrization(module.{name}).{{}}"),
    )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        inverse = parametrization.right_inverse(result)
    except NotImplementedError:
        return
    if not isinstance(inverse, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(inverse).__name__}"
        )
    _check_same(
        old, inverse,
        "The tensor returned by parametrization.right_inverse must have the same {} as "
        f"module.{name}",
        (current, "returned {}"),
    )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module has a parametrization, of this tensor if a name is given.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> [nn.utils.parametrize.is_parametrized(layer, name) for name in ("weight", "bias")]
    [True, False]
    """
    stored = getattr(module, "parametrizations", None)
    if not isinstance(stored, ModuleDict):
        return False
    return len(stored) > 0 if tensor_name is None else tensor_name in stored


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make the tensor an ordinary one again, with the parametrized value or else the original.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> layer = nn.utils.parametrize.remove_parametrizations(layer, "weight")
    >>> sorted(layer.state_dict())
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    stored = module.parametrizations[tensor_name]
    if stored.is_tensor:
        original = stored.original
        if leave_parametrized:
            with no_grad():
                _set(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of the module without parametrizations.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> type(layer).__name__, nn.utils.parametrize.type_before_parametrizations(layer) is nn.Linear
    ('ParametrizedLinear', True)
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Any, to_module: Any, tensor_name: str | None = None
) -> Any:
    """Copy the parametrizations of the first module, with their originals, to the second.

    >>> old = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> new = nn.utils.parametrize.transfer_parametrizations_and_params(old, nn.Linear(3, 2))
    >>> torch.equal(new.weight, old.weight)
    True
    """
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        originals = ["original"] if source.is_tensor else [
            f"original{i}" for i in range(source.ntensors)
        ]
        for original in originals:
            setattr(target, original, getattr(source, original))
    return to_module
