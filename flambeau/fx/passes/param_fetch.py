"""Annotate a graph's nodes with what an accelerator needs to know about their modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...nn.module import Module
from ...nn.modules.activation import ReLU
from ...nn.modules.batchnorm import BatchNorm2d
from ...nn.modules.conv import Conv2d
from ...nn.modules.linear import Linear
from ...nn.modules.pooling import AdaptiveAvgPool2d, MaxPool2d
from .._compatibility import compatibility
from ..graph_module import GraphModule
from .tools_common import class_name

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]

Matching = Callable[[str, int], str]


@compatibility(is_backward_compatible=False)
def default_matching(name: str, target_version: int) -> str:
    """Return an attribute's name in a version of its class: the same."""
    return name


# By class: the version that the names are of, the names, and how they translate to a version.
module_fetch_book: dict[type, tuple[int, list[str], Matching]] = {
    Linear: (1, ["weight", "bias"], default_matching),
    Conv2d: (1, ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups",
                 "padding_mode"], default_matching),
    BatchNorm2d: (2, ["weight", "bias", "running_mean", "running_var", "eps"], default_matching),
    AdaptiveAvgPool2d: (1, [], default_matching),
    MaxPool2d: (1, ["kernel_size", "stride", "padding", "dilation", "return_indices",
                    "ceil_mode"], default_matching),
    ReLU: (1, ["inplace"], default_matching),
}


@compatibility(is_backward_compatible=False)
def extract_attrs_for_lowering(mod: Module) -> dict[str, Any]:
    """Return the attributes of a module that `module_fetch_book` lists, and its class's `name`.

    Raises RuntimeError if the book does not list the class, or lists an older version.

    >>> from flambeau.fx.passes.param_fetch import extract_attrs_for_lowering
    >>> extract_attrs_for_lowering(nn.ReLU())
    {'name': 'torch.nn.modules.activation.ReLU', 'inplace': False}
    """
    name = class_name(type(mod))
    if type(mod) not in module_fetch_book:
        raise RuntimeError(f"{name} is not in the module_fetch_book yet")
    version, attributes, matching = module_fetch_book[type(mod)]
    if version < mod._version:
        raise RuntimeError(f"Fetcher version {version} try to fetch {name} version {mod._version}")
    return {"name": name} | {a: getattr(mod, matching(a, mod._version)) for a in attributes}


@compatibility(is_backward_compatible=False)
def lift_lowering_attrs_to_nodes(fx_module: GraphModule) -> None:
    """Set `attrs_for_lowering` of each node that calls a module, in nested graph modules too."""
    modules = dict(fx_module.named_modules())
    for node in fx_module.graph.nodes:
        if node.op != "call_module":
            continue
        module = modules[node.target]
        if isinstance(module, GraphModule):
            lift_lowering_attrs_to_nodes(module)
        else:
            node.attrs_for_lowering = extract_attrs_for_lowering(module)
