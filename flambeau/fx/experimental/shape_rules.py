"""Infer the types of a graph's values from its inputs; sizes may be unknown (Dyn).

Each rule takes a node, plus the module it calls if any, and returns the node's type. Rules raise
TypeError if the shapes do not fit.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from ...nn.modules.activation import ReLU
from ...nn.modules.batchnorm import BatchNorm2d
from ...nn.modules.conv import Conv2d
from ...nn.modules.linear import Linear
from ...nn.modules.pooling import AdaptiveAvgPool2d, MaxPool2d
from ..node import Node
from ..qualified_names import torch_module
from ..tensor_type import Dyn, TensorType, is_consistent, is_more_precise
from .unification import Var

Rule = Callable[..., Any]

INFERENCE_RULES: dict[Any, Rule] = {}


def find_public_function(target: Any) -> Any:
    """Resolve a name such as "torch.add" to its function; return anything else unchanged."""
    return getattr(torch_module(), target[6:]) if isinstance(target, str) else target


def rule(*targets: Any) -> Callable[[Rule], Rule]:
    """Register a rule for module classes or functions; a string names a torch function."""

    def add(function: Rule) -> Rule:
        for target in targets:
            if target in INFERENCE_RULES:
                raise RuntimeError(f"Inference rule already registered for {target}!")
            INFERENCE_RULES[target] = function
        return function

    return add


def expand_to_tensor_dim(t: Any, n: int) -> TensorType:
    """Return the type with rank `n`, expanding Dyn. TypeError if it has another rank."""
    if t == Dyn:
        return TensorType((Dyn,) * n)
    if not isinstance(t, TensorType):
        raise TypeError(f"Cannot match the type {t}")
    if len(t.dims) != n:
        raise TypeError(
            f"Cannot extend tensor. Tensor {t} has rank {len(t.dims)}. It should have rank {n}"
        )
    return t


def broadcast_types(t1: Any, t2: Any) -> tuple[Any, Any]:
    """Return the two types broadcast against each other."""
    if t1 == Dyn or t2 == Dyn or isinstance(t1, Var) or isinstance(t2, Var):
        return t1, t2
    if not isinstance(t1, TensorType) or not isinstance(t2, TensorType):
        raise TypeError(f"Cannot broadcast types {t1} and {t2}")
    length = max(len(t1.dims), len(t2.dims))
    first = [1] * (length - len(t1.dims)) + list(t1.dims)
    second = [1] * (length - len(t2.dims)) + list(t2.dims)
    pairs = [(y, y) if x == 1 else (x, x) if y == 1 else (x, y)
             for x, y in zip(first, second, strict=True)]
    return TensorType(tuple(x for x, _ in pairs)), TensorType(tuple(y for _, y in pairs))


def get_greatest_upper_bound(type1: Any, type2: Any) -> Any:
    """Combine what both types say. TypeError if they contradict each other."""
    if type1 == Dyn:
        return type2
    if type2 == Dyn:
        return type1
    if not isinstance(type1, TensorType) or not isinstance(type2, TensorType):
        return None
    if not is_consistent(type1, type2):
        raise TypeError(f"Inconsistent types {type1}, {type2}")
    return TensorType(tuple(a if is_more_precise(a, b) else b
                            for a, b in zip(type1.dims, type2.dims, strict=True)))


def _pair(value: Any) -> Any:
    return (value, value) if isinstance(value, int) else value


def calculate_out_dimension(d_in: Any, module_instance: Any, index: int) -> Any:
    """Return the output size of a convolution or pooling; an expression for a symbol."""
    if d_in == Dyn:
        return Dyn
    if not isinstance(d_in, int) and not hasattr(d_in, "free_symbols"):
        raise TypeError(
            f"{d_in} in {module_instance} must be a number or Dyn. Received {type(d_in)}"
        )
    padding, kernel, stride, dilation = (
        _pair(getattr(module_instance, name))
        for name in ("padding", "kernel_size", "stride", "dilation")
    )
    n = d_in + 2 * padding[index] - dilation[index] * (kernel[index] - 1) - 1
    return n // stride[0] + 1


def _read_input_type(n: Node) -> Any:
    """Return the type of a node's input; if unknown, first give it the rank of the node's type."""
    source: Any = n.args[0]
    if source.type == Dyn and isinstance(n.type, TensorType):
        source.type = expand_to_tensor_dim(source.type, len(n.type.dims))
    return source.type


def _refine(n: Node, result: Any) -> Any:
    """Set a node's type to `result` combined with its existing type."""
    n.type = get_greatest_upper_bound(result, n.type)
    return n.type


@rule("torch.add", operator.add)
def add_inference_rule(n: Node) -> Any:
    """Return the less precise operand type after broadcasting; note in meta if it broadcasts."""
    first: Any = n.args[0]
    second: Any = n.args[1]
    t1, t2 = first.type, second.type
    if t1 is int and isinstance(t2, TensorType):
        n.type = t2
        return t2
    if t2 is int and isinstance(t1, TensorType):
        n.type = t1
        return t1
    b1, b2 = broadcast_types(t1, t2)
    n.meta["broadcast"] = b1 != t1 or b2 != t2
    if n.meta["broadcast"]:
        n.meta[str(first)], n.meta[str(second)] = b1, b2
    if not is_consistent(b1, b2):
        raise TypeError(f"Cannot add arguments {first} ({t1}) and {second} ({t2}) in node {n}. "
                        "Types should match ")
    n.type = b2 if is_more_precise(b1, b2) else b1
    return n.type


@rule(getattr)
def get_attr_inference_rule(n: Node, traced: Any) -> Any:
    """Return Dyn for `x.shape`; other attributes are not supported."""
    if n.args[1] != "shape":
        raise TypeError("Not yet implemented")
    n.type = Dyn
    return Dyn


@rule("torch.transpose")
def transpose_inference_rule(n: Node) -> Any:
    """Return the input's sizes with two axes swapped."""
    source: Any = n.args[0]
    axes: Any = n.args[1:3]
    if source.type == Dyn:
        n.type = Dyn
        return Dyn
    if not isinstance(source.type, TensorType) or \
            not all(0 <= axis < len(source.type.dims) for axis in axes):
        raise TypeError(f"Cannot transpose {axes[0]} and {axes[1]} in type {source.type} for "
                        f"node {n}")
    sizes = list(source.type.dims)
    sizes[axes[0]], sizes[axes[1]] = sizes[axes[1]], sizes[axes[0]]
    return _refine(n, TensorType(sizes))


@rule("torch.reshape")
def reshape_inference_rule(n: Node) -> Any:
    """Return the requested sizes, if the number of elements can match."""
    source: Any = n.args[0]
    sizes: Any = n.args[1]
    result = TensorType([Dyn if size == -1 else size for size in sizes])
    if source.type != Dyn:
        if not isinstance(source.type, TensorType):
            raise TypeError(f"Cannot reshape in node {n} from {source.type} to {result}")
        known = math.prod(1 if size == Dyn else size for size in source.type.dims)
        count = math.prod(sizes)
        if known % count and count % known:
            raise TypeError(f"Cannot reshape in node {n} from {source.type} to {result}")
    n.type = result
    return result


@rule(BatchNorm2d)
def bn2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """Return the input's type, after checking its channels against the layer's."""
    source: Any = n.args[0]
    source.type = expand_to_tensor_dim(source.type, 4)
    n.type = expand_to_tensor_dim(n.type, 4)
    channels = module_instance.num_features
    if not (is_consistent(source.type.dims[1], channels)
            and is_consistent(n.type.dims[1], channels) and is_consistent(source.type, n.type)):
        raise TypeError(f"Cannot apply {module_instance} with input type {source.type} and "
                        f"existing type {n.type} on {n}")
    return _refine(n, source.type)


@rule(Conv2d)
def conv2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """Return the type with the layer's output channels and spatial sizes."""
    source: Any = n.args[0]
    source.type = expand_to_tensor_dim(source.type, 4)
    batch, channels, height, width = source.type.dims
    present = expand_to_tensor_dim(n.type, 4)
    if not is_consistent(channels, module_instance.in_channels):
        raise TypeError(f"Cannot apply {module_instance} with input type {source.type} and "
                        f"existing type {n.type} on {n}")
    result = TensorType((batch, module_instance.out_channels,
                         calculate_out_dimension(height, module_instance, 0),
                         calculate_out_dimension(width, module_instance, 1)))
    n.type = get_greatest_upper_bound(result, present)
    return n.type


@rule(ReLU)
def relu_inference_rule(n: Node, module_instance: Any) -> Any:
    """Return the input's type."""
    kind = _read_input_type(n)
    return _refine(n, kind) if isinstance(kind, TensorType) else n.type


def maxpool2d_check(typ: Any, module_instance: Any) -> TensorType:
    """Return the type after pooling."""
    if len(typ.dims) not in (3, 4):
        raise TypeError(f"Wrong size {typ} for {module_instance}")
    *before, height, width = typ.dims
    return TensorType((*before, calculate_out_dimension(height, module_instance, 0),
                       calculate_out_dimension(width, module_instance, 1)))


@rule(MaxPool2d)
def maxpool2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """Return the type after pooling, if the input's rank is known."""
    kind = _read_input_type(n)
    if isinstance(kind, TensorType):
        return _refine(n, maxpool2d_check(kind, module_instance))
    return n.type


def linear_check(tensor_type: Any, module_instance: Any) -> TensorType:
    """Replace the last size by the layer's output features."""
    if len(tensor_type.dims) < 2:
        raise TypeError(f"Type {tensor_type} must have rank 2 or more.")
    *before, last = tensor_type.dims
    if not is_consistent(module_instance.in_features, last):
        raise TypeError(
            f"Inconsistent {module_instance.in_features} and {last} in {module_instance}"
        )
    return TensorType((*before, module_instance.out_features))


@rule(Linear)
def linear_inference_rule(n: Node, module_instance: Any) -> Any:
    """Replace the last size by the layer's output features, if the input's rank is known."""
    kind = _read_input_type(n)
    if isinstance(kind, TensorType):
        return _refine(n, linear_check(kind, module_instance))
    return n.type


def adaptiveavgpool2d_check(tensor_type: Any, module_instance: Any) -> TensorType:
    """Replace the last two sizes by the pooling's output size."""
    if len(tensor_type.dims) not in (3, 4):
        raise TypeError(f"Tensor ranks must be 3 or 4. Got {tensor_type}")
    height, width = _pair(module_instance.output_size)
    height = width if height is None else height
    width = height if width is None else width
    return TensorType((*tensor_type.dims[:-2], height, width))


@rule(AdaptiveAvgPool2d)
def adaptiveavgpool2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """Replace the last two sizes by the pooling's output size, if the input's rank is known."""
    kind = _read_input_type(n)
    if isinstance(kind, TensorType):
        return _refine(n, adaptiveavgpool2d_check(kind, module_instance))
    return n.type


def find_flattened_axes(n: Node) -> tuple[int, int]:
    """Return the first and last axis that a flatten call joins; 1 and -1 by default."""
    axes: Any = [*n.args[1:3], *(1, -1)[len(n.args) - 1:]]
    return n.kwargs.get("start_dim", axes[0]), n.kwargs.get("end_dim", axes[1])


def flatten_check(tensor_type: Any, start_dim: int, end_dim: int) -> TensorType:
    """Join the sizes from `start_dim` to `end_dim` into one."""
    rank = len(tensor_type.dims)
    start = rank if start_dim == -1 else abs(start_dim)
    end = rank + end_dim + 1 if end_dim < 0 else end_dim + 1
    if not (0 <= start <= rank - 1 and 0 <= end <= rank and start < end):
        raise TypeError(f"Incompatible dimensions {start}, {end - 1} in type {tensor_type}")
    sizes = list(tensor_type.dims)
    joined = Dyn if Dyn in sizes[start:end] else math.prod(sizes[start:end])
    return TensorType((*sizes[:start], joined, *sizes[end:]))


@rule("torch.flatten")
def flatten_inference_rule(n: Node) -> Any:
    """Join the flattened sizes into one, if the input's rank is known."""
    kind = _read_input_type(n)
    if isinstance(kind, TensorType):
        return _refine(n, flatten_check(kind, *find_flattened_axes(n)))
    return n.type
