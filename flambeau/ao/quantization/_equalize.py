"""Cross-layer equalization: scales adjacent layers so that their channels have equal ranges.

Nagel et al. 2019 (https://arxiv.org/abs/1906.04721), section 4.1. Between two layers that only a
piecewise linear function separates, a channel's output may be divided by any positive number by
which the next layer's weights are multiplied.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ... import nn
from ...nn.module import Module
from ...nn.parameter import Parameter
from ...ops.core.operator import PUBLIC
from ...tensor.tensor import Tensor
from ..nn.intrinsic import ConvReLU1d, ConvReLU2d, LinearReLU

__all__ = [
    "channel_range", "converged", "cross_layer_equalization", "equalize",
    "expand_groups_in_paired_modules_list", "get_module_bias", "get_module_weight",
    "get_name_by_module", "has_bias", "max_over_ndim", "min_over_ndim",
    "process_paired_modules_list_to_name", "set_module_bias", "set_module_weight",
]

_PLAIN = (nn.Conv1d, nn.Conv2d, nn.Linear)
_FUSED = (ConvReLU1d, ConvReLU2d, LinearReLU)


def _find_layer(module: Any) -> Any:
    """Return the layer that holds the weight: the first of a fused pair."""
    return module if type(module) in _PLAIN else module[0]


def set_module_weight(module: Any, weight: Tensor) -> None:
    """Replace the weight of a layer or of a fused pair's first."""
    _find_layer(module).weight = Parameter(weight)


def set_module_bias(module: Any, bias: Tensor) -> None:
    """Replace the bias of a layer or of a fused pair's first."""
    _find_layer(module).bias = Parameter(bias)


def has_bias(module: Any) -> bool:
    """Return whether a layer, or a fused pair's first, has a bias."""
    return _find_layer(module).bias is not None


def get_module_weight(module: Any) -> Tensor:
    """Return the weight of a layer or of a fused pair's first."""
    weight: Tensor = _find_layer(module).weight
    return weight


def get_module_bias(module: Any) -> Tensor | None:
    """Return the bias of a layer or of a fused pair's first."""
    bias: Tensor | None = _find_layer(module).bias
    return bias


def max_over_ndim(input: Tensor, axis_list: list[int], keepdim: bool = False) -> Tensor:
    """Return the maxima over several axes."""
    return input.amax(tuple(axis_list), keepdim) if axis_list else input


def min_over_ndim(input: Tensor, axis_list: list[int], keepdim: bool = False) -> Tensor:
    """Return the minima over several axes."""
    return input.amin(tuple(axis_list), keepdim) if axis_list else input


def channel_range(input: Tensor, axis: int = 0) -> Tensor:
    """Return the difference between greatest and least element of each channel along `axis`."""
    others = [dim for dim in range(input.ndim) if dim != axis]
    return max_over_ndim(input, others) - min_over_ndim(input, others)


def get_name_by_module(model: Module, module: Module) -> str:
    """Return a module's name within the model. Raises ValueError if it is not in the model."""
    for name, other in model.named_modules():
        if other is module:
            return name
    raise ValueError("module is not in the model")


def cross_layer_equalization(
    module1: Module, module2: Module, output_axis: int = 0, input_axis: int = 1
) -> None:
    """Scale two adjacent layers so that each channel between them has the same range in both.

    Raises ValueError for other kinds of modules, TypeError if their channels differ in number.
    """
    if not {type(module1), type(module2)} <= {*_PLAIN, *_FUSED}:
        raise ValueError("module type not supported:", type(module1), " ", type(module2))
    bias = get_module_bias(module1)
    weight1, weight2 = get_module_weight(module1), get_module_weight(module2)
    if weight1.size(output_axis) != weight2.size(input_axis):
        raise TypeError("Number of output channels of first arg do not match "
                        "        number input channels of second arg")
    ranges = channel_range(weight1, output_axis) / (channel_range(weight2, input_axis) + 1e-9)
    factors = ranges.sqrt()
    inverse = factors.reciprocal()
    set_module_weight(module1, weight1 * _align(inverse, weight1, output_axis))
    if bias is not None:
        set_module_bias(module1, bias * inverse)
    set_module_weight(module2, weight2 * _align(factors, weight2, input_axis))


def _align(factors: Tensor, weight: Tensor, axis: int) -> Tensor:
    """Return the factors with axes of length 1, so that they broadcast along `axis`."""
    shape = [1] * weight.ndim
    shape[axis] = weight.size(axis)
    return factors.reshape(shape)


def process_paired_modules_list_to_name(
    model: Module, paired_modules_list: list[list[Any]]
) -> list[list[Any]]:
    """Replace the modules in the groups by their names, in place, and return the groups.

    Raises TypeError for an item that is neither a module nor a name.
    """
    for group in paired_modules_list:
        for i, item in enumerate(group):
            if isinstance(item, Module):
                group[i] = get_name_by_module(model, item)
            elif not isinstance(item, str):
                raise TypeError("item must be a nn.Module or a string")
    return paired_modules_list


def expand_groups_in_paired_modules_list(
    paired_modules_list: Sequence[list[Any]],
) -> list[list[Any]]:
    """Return the pairs of neighbours in the groups. Raises ValueError for a group of one."""
    pairs: list[list[Any]] = []
    for group in paired_modules_list:
        if len(group) == 1:
            raise ValueError("Group must have at least two modules")
        pairs += [group] if len(group) == 2 else [list(pair) for pair in pairwise(group)]
    return pairs


def equalize(
    model: Module, paired_modules_list: list[list[Any]], threshold: float = 1e-4,
    inplace: bool = True,
) -> Module:
    """Equalize pairs of adjacent layers until their weights change by less than `threshold`.

    paired_modules_list: groups of modules, or their names, that follow one another in the model.

    >>> from flambeau.ao.quantization._equalize import channel_range, equalize
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    >>> _ = equalize(model, [["0", "1"]])
    >>> a, b = channel_range(model[0].weight, 0), channel_range(model[1].weight, 1)
    >>> torch.allclose(a, b, atol=1e-3)
    True
    """
    groups = process_paired_modules_list_to_name(model, paired_modules_list)
    if not inplace:
        model = copy.deepcopy(model)
    pairs = expand_groups_in_paired_modules_list(groups)
    names = {name for pair in pairs for name in pair}
    modules: dict[str, Any] = {n: m for n, m in model.named_modules() if n in names}
    previous: dict[str, Any] = dict.fromkeys(modules)
    while not converged(modules, previous, threshold):
        for first, second in pairs:
            previous[first] = copy.deepcopy(modules[first])
            previous[second] = copy.deepcopy(modules[second])
            cross_layer_equalization(modules[first], modules[second])
    return model


def converged(
    curr_modules: dict[str, Any], prev_modules: dict[str, Any], threshold: float = 1e-4
) -> bool:
    """Return whether the norms of the weights' changes sum to less than `threshold`.

    Raises ValueError if the dicts have other keys, or if a weight is not a number: scaling a
    channel whose range is 0, as of a single weight, makes it one.
    """
    if curr_modules.keys() != prev_modules.keys():
        raise ValueError("The keys to the given mappings must have the same set of names of "
                         "modules")
    if None in prev_modules.values():
        return False
    norm = PUBLIC["linalg"]["norm"]
    total = 0.0
    for name, module in curr_modules.items():
        change = get_module_weight(module) - get_module_weight(prev_modules[name])
        total += norm(change.detach()).item()
    if math.isnan(total):
        raise ValueError("a channel to equalize has the range 0: its weights are all equal")
    return total < threshold
