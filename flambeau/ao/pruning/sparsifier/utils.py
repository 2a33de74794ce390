"""The mask as a parametrization, and names of modules within a model."""

from __future__ import annotations

from typing import Any

from ....nn.module import Module
from ....nn.utils.parametrize import is_parametrized, type_before_parametrizations
from ....tensor import Tensor

__all__ = [
    "FakeSparsity", "fqn_to_module", "get_arg_info_from_tensor_fqn", "module_contains_param",
    "module_to_fqn", "swap_module",
]


class FakeSparsity(Module):
    """A parametrization that multiplies a parameter by a mask. Its state_dict is empty.

    >>> layer = nn.Linear(2, 2)
    >>> mask = torch.ao.pruning.FakeSparsity(torch.eye(2))
    >>> _ = nn.utils.parametrize.register_parametrization(layer, "weight", mask)
    >>> layer.weight[0, 1].abs().item()
    0.0
    """

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        if self.mask.shape != x.shape:
            raise AssertionError(
                f"mask shape ({self.mask.shape}) must match x shape ({x.shape})")
        return self.mask * x

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return nothing: the sparsifier saves the masks."""
        return {}


def module_contains_param(module: Module, parametrization: type[Module]) -> bool:
    """Return whether a parameter of the module has a parametrization of this class."""
    if not is_parametrized(module):
        return False
    lists: Any = module.parametrizations
    return any(isinstance(p, parametrization) for parts in lists.values() for p in parts)


def swap_module(mod: Module, mapping: dict[type[Module], type[Module]]) -> Module:
    """Return what `from_dense` of the class that the mapping names makes of a module, with its
    forward hooks; the module itself if the mapping names none."""
    target: Any = mapping.get(type_before_parametrizations(mod))
    if target is None:
        return mod
    result = target.from_dense(mod)
    for before in mod._forward_pre_hooks.values():
        result.register_forward_pre_hook(before)
    for after in mod._forward_hooks.values():
        result.register_forward_hook(after)
    return result


def module_to_fqn(model: Module, module: Module, prefix: str = "") -> str | None:
    """Return a module's dotted name within a model, "" for the model, None if it is not there.

    >>> model = nn.Sequential(nn.Sequential(nn.Linear(1, 1)))
    >>> torch.ao.pruning.module_to_fqn(model, model[0][0])
    '0.0'
    """
    for name, child in model.named_modules(remove_duplicate=False):
        if child is module:
            return prefix + name if name else ""
    return None


def fqn_to_module(model: Module | None, path: str) -> Any:
    """Return the module or tensor with a dotted name, or None.

    >>> model = nn.Sequential(nn.Linear(1, 1))
    >>> torch.ao.pruning.fqn_to_module(model, "0.bias") is model[0].bias
    True
    """
    place: Any = model
    for name in path.split(".") if path else ():
        place = getattr(place, name, None)
    return place


def get_arg_info_from_tensor_fqn(model: Module, tensor_fqn: str) -> dict[str, Any]:
    """Split a tensor's dotted name: return `module_fqn`, `module`, `tensor_name`, `tensor_fqn`."""
    module_fqn, _, tensor_name = tensor_fqn.rpartition(".")
    return {
        "module_fqn": module_fqn, "module": fqn_to_module(model, module_fqn),
        "tensor_name": tensor_name, "tensor_fqn": tensor_fqn,
    }
