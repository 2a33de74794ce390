"""Layers of frozen graphs: batch norms and arithmetic go into the weights of the layers before
them, dropout is left out, linear layers become products.

Folding changes roundings, not what is computed; it saves a pass over the activations each.
"""

from __future__ import annotations

from typing import Any

from ....autograd import no_grad
from ....nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights
from ....tensor.promotion import promote_types
from ....tensor.tensor import Tensor
from ..nodes import Graph, Node, Value
from .peephole import remove_detach

__all__ = [
    "concat_frozen_linear", "convert_frozen_ops_to_mkldnn", "fold_frozen_conv_add_or_sub",
    "fold_frozen_conv_bn", "fold_frozen_conv_mul_or_div", "fold_frozen_linear_bn",
    "optimize_frozen_graph", "remove_dropout", "transpose_frozen_linear",
]

_CONVOLUTIONS = {"aten::conv1d": False, "aten::conv2d": False, "aten::conv3d": False}
_TRANSPOSED = {"aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d"}
_DROPOUTS = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")


def optimize_frozen_graph(graph: Graph, optimize_numerics: bool = True) -> None:
    """Run the passes of this file; those that change roundings if `optimize_numerics`."""
    remove_dropout(graph)
    remove_detach(graph)
    folds = (fold_frozen_conv_bn, fold_frozen_conv_add_or_sub, fold_frozen_conv_mul_or_div,
             fold_frozen_linear_bn)
    while optimize_numerics and sum(fold(graph) for fold in folds):
        pass  # one fold makes another possible


def remove_dropout(graph: Graph) -> bool:
    """Leave out dropout that is off."""
    changed = False
    for node in graph.list_nodes():
        name = node.kind().removeprefix("aten::").removesuffix("_")
        if name in _DROPOUTS and node.arguments[2].toIValue() is False:
            node.results[0].replaceAllUsesWith(node.arguments[0])
            node.destroy()
            changed = True
    return changed


def concat_frozen_linear(graph: Graph) -> bool:
    """Do nothing: linear layers of one input are joined for GPUs only."""
    return False


def convert_frozen_ops_to_mkldnn(graph: Graph) -> bool:
    """Do nothing: there is no oneDNN."""
    return False


def transpose_frozen_linear(graph: Graph) -> bool:
    """Turn linear layers with constant weights into products with the transposed weight."""
    changed = False
    for node in graph.findAllNodes("aten::linear"):
        input, weight, bias = node.arguments
        if not isinstance(weight.toIValue(), Tensor):
            continue
        with no_grad():
            transposed = _insert(graph, node, weight.toIValue().t().contiguous())
        product = graph.create("aten::matmul", [input, transposed]).insertBefore(node)
        result = product.results[0]
        if not bias.node().mustBeNone():
            alpha = graph.create_constant(1).insertBefore(node).results[0]
            result = graph.create("aten::add", [result, bias, alpha]).insertBefore(node).results[0]
        node.results[0].replaceAllUsesWith(result)
        node.destroy()
        changed = True
    return changed


def fold_frozen_conv_bn(graph: Graph) -> bool:
    """Fold batch norms into the convolutions before them."""
    return sum([_fold_norm(graph, node) for node in graph.findAllNodes("aten::batch_norm")
                if _is_convolution(node.arguments[0].node())]) > 0


def fold_frozen_linear_bn(graph: Graph) -> bool:
    """Fold batch norms into the linear layers before them."""
    return sum([_fold_norm(graph, node) for node in graph.findAllNodes("aten::batch_norm")
                if node.arguments[0].node().kind() == "aten::linear"]) > 0


def fold_frozen_conv_add_or_sub(graph: Graph) -> bool:
    """Fold sums and differences with constants into the bias of the convolution before them."""
    return _fold_arithmetic(graph, ("aten::add", "aten::sub"))


def fold_frozen_conv_mul_or_div(graph: Graph) -> bool:
    """Fold products and quotients with constants into the convolution before them."""
    return _fold_arithmetic(graph, ("aten::mul", "aten::div"))


def _is_convolution(node: Node) -> bool:
    return node.kind() in _CONVOLUTIONS or node.kind() in _TRANSPOSED


def _read_layer(node: Node) -> tuple[Tensor, Tensor | None] | None:
    """Return the constant weight and bias of a layer whose result has one user, or None."""
    weight, bias = (value.toIValue() for value in node.arguments[1:3])
    is_known = isinstance(weight, Tensor) and weight.is_floating_point() and (
        isinstance(bias, Tensor) or node.arguments[2].node().mustBeNone())
    return (weight, bias) if is_known and len(node.results[0].uses()) == 1 else None


def _fold_norm(graph: Graph, node: Node) -> bool:
    source = node.arguments[0].node()
    layer = _read_layer(source)
    values = [value.toIValue() for value in node.arguments[1:]]
    gain, shift, mean, variance, training, _, epsilon = values[:7]
    if layer is None or training is not False or not isinstance(mean, Tensor) \
            or not isinstance(variance, Tensor) or any(
                value is None and not argument.node().mustBeNone()
                for value, argument in zip(values[:2], node.arguments[1:3], strict=True)):
        return False
    weight, bias = layer
    transposed = source.kind() in _TRANSPOSED
    if source.kind() == "aten::linear" and len(mean) not in (len(weight), 1) \
            or transposed and source.arguments[6].toIValue() != 1:  # groups
        return False
    with no_grad():
        if source.kind() == "aten::linear":
            fused = fuse_linear_bn_weights(weight, bias, mean, variance, epsilon, gain, shift)
        else:
            fused = fuse_conv_bn_weights(weight, bias, mean, variance, epsilon, gain, shift,
                                         transposed)
    _replace_layer(graph, source, *(x.detach() for x in fused))
    node.results[0].replaceAllUsesWith(source.results[0])
    node.destroy()
    return True


def _replace_layer(graph: Graph, node: Node, weight: Tensor, bias: Tensor) -> None:
    for position, tensor in ((1, weight), (2, bias)):
        node.replaceInput(position, _insert(graph, node, tensor))


def _insert(graph: Graph, node: Node, tensor: Tensor) -> Value:
    """Add a constant before a node."""
    return graph.create_constant(tensor).insertBefore(node).results[0]


def _fold_arithmetic(graph: Graph, kinds: tuple[str, ...]) -> bool:
    changed = False
    for node in graph.list_nodes():
        source = node.arguments[0].node() if node.kind() in kinds else None
        if source is None or source.kind() not in _CONVOLUTIONS:
            continue
        layer = _read_layer(source)
        operand = None if layer is None else _read_operand(node, layer[0])
        if layer is None or operand is None:
            continue
        with no_grad():
            weight, bias = _compute(node.kind(), *layer, operand)
        _replace_layer(graph, source, weight, bias)
        node.results[0].replaceAllUsesWith(source.results[0])
        node.destroy()
        changed = True
    return changed


def _read_operand(node: Node, weight: Tensor) -> Any:
    """Return the constant operand as a number or one element per channel, or None."""
    operand = node.arguments[1].toIValue()
    if len(node.arguments) > 2 and node.arguments[2].toIValue() != 1:  # alpha, or rounding
        return None
    if isinstance(operand, (int, float)) and not isinstance(operand, bool):
        return operand
    if not isinstance(operand, Tensor) or operand.dim() > weight.dim() \
            or promote_types(operand.dtype, weight.dtype) != weight.dtype:
        return None
    if any(size != 1 and not (axis == 1 and size == weight.shape[0])
           for axis, size in enumerate(operand.shape)):
        return None
    return operand.reshape(-1).to(weight.dtype).expand(weight.shape[0])


def _compute(kind: str, weight: Tensor, bias: Tensor | None, operand: Any) -> tuple[Any, Any]:
    channels = weight.shape[0]
    if bias is None:
        bias = weight.new_zeros(channels)
    if kind == "aten::add":
        return weight, bias + operand
    if kind == "aten::sub":
        return weight, bias - operand
    factors = operand.reshape(channels, *(1,) * (weight.dim() - 1)) \
        if isinstance(operand, Tensor) else operand
    if kind == "aten::mul":
        return weight * factors, bias * operand
    return weight / factors, bias / operand
