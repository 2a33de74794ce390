"""Modules as functions of their state: functorch's API, which predates functional_call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import ops
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..nn.utils.stateless import _functional_call
from ..tensor import Tensor

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble",
    "functional_init", "functional_init_with_buffers", "make_functional",
    "make_functional_with_buffers",
]

Tensors = tuple[Tensor, ...]


class FunctionalModule(Module):
    """A module as a function of its parameters, returned by `make_functional`."""

    def __init__(self, stateless_model: Module, param_names: tuple[str, ...]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = param_names

    def forward(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Run the module with `params` as its parameters."""
        state = dict(zip(self.param_names, params, strict=True))
        return _functional_call(self.stateless_model, state, args, kwargs, tie_weights=True)


class FunctionalModuleWithBuffers(Module):
    """A module as a function of its parameters and buffers (`make_functional_with_buffers`)."""

    def __init__(
        self, stateless_model: Module, param_names: tuple[str, ...], buffer_names: tuple[str, ...]
    ) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = param_names
        self.buffer_names = buffer_names

    def forward(
        self, params: Iterable[Tensor], buffers: Iterable[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        """Run the module with `params` and `buffers` as its own."""
        state = dict(zip(self.param_names, params, strict=True))
        state.update(zip(self.buffer_names, buffers, strict=True))
        return _functional_call(self.stateless_model, state, args, kwargs, tie_weights=True)


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, Tensors]:
    """Return (a function of parameters and `model`'s arguments, copies of its parameters).

    With `disable_autograd_tracking` the copies require no gradients. Raises RuntimeError if the
    model has buffers.

    >>> func, params = torch._functorch.make_functional.make_functional(nn.Linear(3, 2))
    >>> func(params, torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """
    if next(model.buffers(), None) is not None:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    names, params, _, _, stateless = _state(model, disable_autograd_tracking)
    return FunctionalModule(stateless, names), params


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Return (a function of parameters, buffers and `model`'s arguments, copies of both)."""
    names, params, buffer_names, buffers, stateless = _state(model, disable_autograd_tracking)
    return FunctionalModuleWithBuffers(stateless, names, buffer_names), params, buffers


def _state(
    model: Module, disable_autograd_tracking: bool
) -> tuple[tuple[str, ...], Tensors, tuple[str, ...], Tensors, Module]:
    """Return names and copies of parameters and of buffers, and a copy of the model without them.
    """
    model = copy.deepcopy(model)
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    if disable_autograd_tracking:
        for x in parameters.values():
            x.requires_grad_(False)
    empty: dict[int, Tensor] = {}
    for _, owner in model.named_modules():
        for own in (owner._parameters, owner._buffers):
            for name, x in own.items():
                if x is not None:
                    own[name] = empty.setdefault(id(x), _without_values(x))
    return tuple(parameters), tuple(parameters.values()), tuple(buffers), \
        tuple(buffers.values()), model


def _without_values(x: Tensor) -> Tensor:
    new = ops.empty_like(x, device="meta")
    return Parameter(new, x.requires_grad) if isinstance(x, Parameter) else new


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Return (a function for vmap, stacked parameters, stacked buffers) of the models.

    Raises RuntimeError if there are no models, or if their classes or modes differ.
    """
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode."
        )
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class."
        )
    funcs, params, buffers = zip(*map(make_functional_with_buffers, models), strict=True)
    return funcs[0], _stack_columns(params), _stack_columns(buffers)


def _stack_columns(rows: Iterable[Tensors]) -> Tensors:
    return tuple(ops.stack(column).detach() for column in zip(*rows, strict=True))


def functional_init(
    model_class: type[Module], ensemble_shape: tuple[int, ...] = (), device: Any = "cpu"
) -> Callable[..., tuple[Tensors, Callable, tuple[str, ...]]]:
    """Return a constructor of (weights, a function of weights and a tuple of data, names)."""

    def build(*args: Any, **kwargs: Any) -> tuple[Tensors, Callable, tuple[str, ...]]:
        weights, _, func, names, _ = _build_models(
            model_class, ensemble_shape, device, args, kwargs)
        return weights, lambda weights, data: func(weights, (), *data), names

    return build


def functional_init_with_buffers(
    model_class: type[Module], ensemble_shape: tuple[int, ...] = (), device: Any = "cpu"
) -> Callable[..., tuple[Tensors, Tensors, Callable, tuple[str, ...], tuple[str, ...]]]:
    """Return a constructor of (weights, buffers, a function of these and data, names of both)."""

    def build(
        *args: Any, **kwargs: Any
    ) -> tuple[Tensors, Tensors, Callable, tuple[str, ...], tuple[str, ...]]:
        weights, buffers, func, names, buffer_names = _build_models(
            model_class, ensemble_shape, device, args, kwargs)

        def call(weights: Tensors, buffers: Tensors, data: tuple) -> Any:
            return func(weights, buffers, *data)

        return weights, buffers, call, names, buffer_names

    return build


def _build_models(
    model_class: type[Module], shape: tuple[int, ...], device: Any, args: tuple, kwargs: dict
) -> tuple[Tensors, Tensors, FunctionalModuleWithBuffers, tuple[str, ...], tuple[str, ...]]:
    """Return weights, buffers, the function and names of both; an ensemble's are stacked."""
    if len(shape) >= 2:
        raise ValueError("NYI: ensemble_shape with more than 1 element")
    if shape and shape[0] <= 0:
        raise ValueError(f"num_models {shape[0]} should be > 0")
    models = [model_class(*args, **kwargs).to(device) for _ in range(shape[0] if shape else 1)]
    if shape:
        func, weights, buffers = combine_state_for_ensemble(models)
    else:
        func, weights, buffers = make_functional_with_buffers(models[0])
    return weights, buffers, func, func.param_names, func.buffer_names
