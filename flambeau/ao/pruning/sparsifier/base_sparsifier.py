"""The class of all sparsifiers: it attaches masks, has them recomputed, and takes them off."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import defaultdict
from typing import Any

from .... import ops
from ....autograd.mode import no_grad
from ....nn.module import Module
from ....nn.modules.linear import Linear
from ....nn.utils import parametrize
from .utils import (
    FakeSparsity, get_arg_info_from_tensor_fqn, module_contains_param, module_to_fqn, swap_module,
)

SUPPORTED_MODULES: set[type] = {Linear}  # whose weights are masked without a configuration
KEYS_NOT_IN_STATE_DICT = ["module", "module_fqn", "tensor_name"]

__all__ = ["BaseSparsifier"]


class BaseSparsifier(ABC):
    """Masks over parameters; a subclass defines `update_mask`.

    Args:
        defaults: settings of each group that its configuration leaves out.

    >>> class FirstRow(torch.ao.pruning.BaseSparsifier):
    ...     def update_mask(self, module, tensor_name, **settings):
    ...         module.parametrizations[tensor_name][0].mask[0] = 0
    >>> layer = nn.Sequential(nn.Linear(2, 2))
    >>> sparsifier = FirstRow()
    >>> sparsifier.prepare(layer, [{"tensor_fqn": "0.weight"}])
    >>> sparsifier.step()
    >>> layer[0].weight[0].abs().tolist()
    [0.0, 0.0]
    """

    model: Module
    _step_count: int  # of a scheduler
    config: Any

    def __init__(self, defaults: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.defaults: dict[str, Any] = defaults or {}
        self.state: dict[str, dict] = defaultdict(dict)
        self.groups: list[dict[str, Any]] = []
        self.enable_mask_update = True

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "groups": self.groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for i, group in enumerate(self.groups):
            lines += [f"\tGroup {i}", f"\t    module: {group['module']}"]
            lines += [f"\t    {key}: {group[key]}" for key in sorted(group) if key != "module"]
        return "\n".join(lines) + (")" if not self.groups else "\n)")

    def state_dict(self) -> dict[str, Any]:
        """Return `state`, the masks by tensor, and `groups`, the settings without modules."""
        groups = [{k: v for k, v in group.items() if k not in KEYS_NOT_IN_STATE_DICT}
                  for group in self.groups]
        return {"state": self.state, "groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Take over the state of another sparsifier, for a model that was prepared.

        Raises RuntimeError if `strict` and the model lacks one of the tensors.
        """
        groups, states = copy.deepcopy(state_dict["groups"]), state_dict["state"]
        for tensor_fqn, state in states.items():
            place = get_arg_info_from_tensor_fqn(self.model, tensor_fqn)
            if strict and place["module"] is None:
                raise RuntimeError(f"Error loading {tensor_fqn} into the model")
            mask = _find_mask(place["module"], place["tensor_name"])
            if state.get("mask") is not None:
                mask.mask = state.pop("mask")
            for group in groups:
                if group["tensor_fqn"] == tensor_fqn:
                    group.update(place)
        self.__setstate__({"state": states, "groups": groups})

    def make_config_from_model(
        self, model: Module, SUPPORTED_MODULES: set[type] = SUPPORTED_MODULES
    ) -> None:
        """Set the configuration to the weights of all layers of these classes."""
        self.config, waiting = [], [model]
        while waiting:
            for child in waiting.pop().children():
                if type(child) in SUPPORTED_MODULES:
                    name = module_to_fqn(model, child)
                    self.config.append({"tensor_fqn": f"{name}.weight"})
                else:
                    waiting.append(child)

    def prepare(self, model: Module, config: list[dict[str, Any]] | None) -> None:
        """Attach a mask of ones to each tensor that `config` names, in place.

        `config`: dicts with a `tensor_fqn` and settings; None for all linear layers.
        """
        self.model, self.config = model, config
        if config is None:
            self.make_config_from_model(model)
        for entry in self.config:
            if not isinstance(entry, dict):
                raise AssertionError(
                    "config elements should be dicts not modules i.e.:"
                    "[{`tensor_fqn`: `foo.bar.weight`}, {`tensor_fqn`: ... }, ...]")
            self.groups.append(self._complete(model, entry))
        self._prepare()

    def _complete(self, model: Module, entry: dict[str, Any]) -> dict[str, Any]:
        """Return an entry of the configuration with the defaults and the tensor's place."""
        group = copy.deepcopy(self.defaults) | entry
        if group.get("tensor_fqn") is None:
            raise AssertionError(
                "tensor_fqn is a required argument in the sparsity config which "
                "replaces previous `module` and [module]`fqn` arguments")
        place = get_arg_info_from_tensor_fqn(model, group["tensor_fqn"])
        for key in place.keys() & group.keys():
            if place[key] != group[key]:
                raise AssertionError(
                    f"Given both `{key}` and `tensor_fqn` in the config, it is expected them to "
                    "agree!")
        return group | place

    def _prepare(self, *args: Any, **kwargs: Any) -> None:
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            mask = group.get("mask")
            mask = ops.ones_like(getattr(module, name)) if mask is None else mask
            self.state[group["tensor_fqn"]]["mask"] = mask
            create = group.get("parametrization", FakeSparsity)
            parametrize.register_parametrization(module, name, create(mask))

    def squash_mask(
        self, params_to_keep: tuple[str, ...] | None = None,
        params_to_keep_per_layer: dict[str, tuple[str, ...]] | None = None,
        *args: Any, **kwargs: Any,
    ) -> None:
        """Multiply the masks into the parameters and take them off.

        Settings with the names in `params_to_keep`, and those in `params_to_keep_per_layer` of a
        module's name, stay in the module's dict `sparse_params`.
        """
        for group in self.groups:
            module = group["module"]
            parametrize.remove_parametrizations(module, group["tensor_name"])
            names = [*(params_to_keep or ()),
                     *(params_to_keep_per_layer or {}).get(group["module_fqn"], ())]
            if names:
                module.sparse_params = {name: group[name] for name in names}

    def convert(
        self, module: Module, mapping: dict[type[Module], type[Module]] | None = None,
        inplace: bool = False, parameterization: type[Module] = FakeSparsity,
    ) -> Module:
        """Replace masked modules by `mapping[type].from_dense(module)`; return the model.

        `inplace`: change the model instead of a copy. Raises NotImplementedError without a
        mapping.
        """
        if mapping is None:
            raise NotImplementedError("Need to auto generate mapping ")
        module = module if inplace else copy.deepcopy(module)
        for name, child in module.named_children():
            masked = module_contains_param(child, parameterization)
            if masked and parametrize.type_before_parametrizations(child) in mapping:
                module._modules[name] = swap_module(child, mapping)
            else:
                self.convert(child, mapping, True, parameterization)
        return module

    def step(self, use_path: bool = True) -> None:
        """Recompute all masks, unless `enable_mask_update` is False."""
        if not self.enable_mask_update:
            return
        with no_grad():
            for group in self.groups:
                self.update_mask(**group)

    @abstractmethod
    def update_mask(self, module: Module, tensor_name: str, **kwargs: Any) -> None:
        """Write a mask anew: `module.parametrizations[tensor_name][0].mask`."""


def _find_mask(module: Any, tensor_name: str) -> FakeSparsity:
    """Return the mask over a tensor, attaching one of ones if there is none."""
    if parametrize.is_parametrized(module, tensor_name):
        for part in module.parametrizations[tensor_name]:
            if isinstance(part, FakeSparsity):
                return part
    mask = FakeSparsity(ops.ones_like(getattr(module, tensor_name)))
    parametrize.register_parametrization(module, tensor_name, mask)
    return mask
