"""functional_call: modules as functions of their parameters; stacking the state of many modules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from .. import ops
from ..native.foundation.public_names import class_of
from ..nn.module import Module
from ..nn.utils.stateless import _functional_call
from ..tensor import Tensor

__all__ = ["functional_call", "stack_module_state"]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call module(*args, **kwargs) with the given tensors, by path, in place of its own.

    Pass one dictionary, or several with disjoint keys. The module is restored afterwards; if the
    call replaces a tensor (as batch normalization does), the dictionary receives the new one. With
    `tie_weights` a tensor stands for all names of a shared parameter; with `strict` the names must
    match exactly.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> torch.func.functional_call(layer, {"weight": torch.ones(1, 2)}, torch.tensor([3., 4.]))
    tensor([7.])
    """
    supplied = parameter_and_buffer_dicts
    if not isinstance(supplied, dict):
        supplied = _merge_dictionaries(supplied)
    return _functional_call(module, supplied, args, kwargs, tie_weights=tie_weights, strict=strict)


def _merge_dictionaries(dictionaries: Any) -> dict[str, Tensor]:
    """Merge dictionaries. Raise ValueError if a key repeats or an argument has the wrong type."""
    if not isinstance(dictionaries, Sequence):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{class_of(dictionaries)}"
        )
    if not all(isinstance(dictionary, dict) for dictionary in dictionaries):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    counts = Counter(key for dictionary in dictionaries for key in dictionary)
    repeated = [key for key, count in counts.items() if count > 1]
    if repeated:
        raise ValueError(
            f"{repeated} appeared in multiple dictionaries; behavior of functional call is "
            "ambiguous"
        )
    return {key: value for dictionary in dictionaries for key, value in dictionary.items()}


def stack_module_state(models: list[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Stack the parameters and buffers of models of one class along a new first axis.

    Raise RuntimeError if there are no models, or if their classes or modes differ.

    >>> nets = [nn.Linear(3, 2) for _ in range(4)]
    >>> params, buffers = torch.func.stack_module_state(nets)
    >>> params["weight"].shape
    torch.Size([4, 2, 3])
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = {
        name: _stack_tensors(name, [model.get_parameter(name) for model in models])
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: _stack_tensors(name, [model.get_buffer(name) for model in models])
        for name, _ in models[0].named_buffers()
    }
    return parameters, buffers


def _stack_tensors(name: str, tensors: list[Tensor]) -> Tensor:
    """Return the stacked tensors as a leaf."""
    if len({t.requires_grad for t in tensors}) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    rows = ops.stack([t.detach() for t in tensors])
    return rows.requires_grad_(tensors[0].requires_grad)
