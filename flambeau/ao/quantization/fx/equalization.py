"""Input-weight equalization: scales inputs' columns and weights' columns to equal ranges.

Before a layer y = W x, column c of x is multiplied by s_c and column c of W divided by it, with
s_c = sqrt(range of W's column / range of x's column). Observers measure both ranges: one behind
the observer of the layer's input, one of the weight. In `convert_fx` the factor enters the layer
before, where that is equalized too, else a product in front of the layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from .... import ops
from ....fx import GraphModule, Node
from ....native.foundation.user_frames import warn
from ....nn import functional as F
from ....nn import modules as nn
from ....nn.module import Module
from ....nn.parameter import Parameter
from ....tensor import Tensor
from ....tensor.dtypes import qint8, quint8
from ....tensor.quantizers import (
    per_channel_affine, per_channel_symmetric, per_tensor_affine, per_tensor_symmetric,
)
from ...nn import intrinsic
from ..observer import ObserverBase, PerChannelMinMaxObserver, _PartialWrapper
from .utils import find_free_name

__all__ = [
    "EqualizationQConfig", "calculate_equalization_scale", "default_equalization_qconfig",
    "equalize", "input_equalization_observer", "node_supports_equalization",
    "weight_equalization_observer",
]

CUSTOM_MODULE_SUPP_LIST: list[Any] = []
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_FUSED = (intrinsic.LinearReLU, intrinsic.ConvReLU1d, intrinsic.ConvReLU2d, intrinsic.ConvReLU3d)
_FUNCTIONS = (F.linear, F.conv1d, F.conv2d, F.conv3d)
_PER_CHANNEL = {per_tensor_affine: per_channel_affine, per_tensor_symmetric: per_channel_symmetric}


def reshape_scale(scale: Tensor, axis: int, input: Tensor) -> Tensor:
    """Reshape a vector of factors so that it broadcasts along an axis of a tensor."""
    shape = [1] * input.ndim
    shape[axis] = input.size(axis)
    return scale.view(shape)


def _is_trivial(scale: Tensor) -> bool:
    """Whether nothing was measured: the factor is the number 1."""
    return scale.numel() == 1 and bool(scale == 1)


class _ColumnObserver(Module):
    """Records the ranges of a tensor's columns, that is, along axis 1."""

    def __init__(
        self, dtype: Any, qscheme: Any, quant_min: int | None, quant_max: int | None,
        factory_kwargs: Any,
    ) -> None:
        super().__init__()
        self.dtype, self.qscheme = dtype, qscheme
        self.columns = PerChannelMinMaxObserver(
            ch_axis=1, dtype=dtype, qscheme=_PER_CHANNEL.get(qscheme, qscheme),
            quant_min=quant_min, quant_max=quant_max, factory_kwargs=factory_kwargs)
        self.equalization_scale = ops.tensor(1)

    def forward(self, x_orig: Tensor) -> Tensor:
        """Record a tensor's ranges and return it; ValueError unless it has 2 to 5 axes."""
        if not 2 <= x_orig.ndim <= 5:
            raise ValueError("InputEqualizationObserver only supports Linear and Conv layers")
        result: Tensor = self.columns(x_orig)
        return result

    @classmethod
    def with_args(cls, **kwargs: Any) -> _PartialWrapper:
        """Return a factory of observers with these arguments."""
        return _PartialWrapper(partial(cls, **kwargs))


class _InputEqualizationObserver(_ColumnObserver):
    """Records the ranges of a layer's input columns. TypeError for a scheme of channels."""

    def __init__(
        self, dtype: Any = quint8, qscheme: Any = per_tensor_affine, quant_min: int | None = None,
        quant_max: int | None = None, factory_kwargs: Any = None,
    ) -> None:
        if qscheme not in _PER_CHANNEL:
            raise TypeError("Input qscheme must be per-tensor")
        super().__init__(dtype, qscheme, quant_min, quant_max, factory_kwargs)
        self.equalization_shape: list[int] = []

    def forward(self, x_orig: Tensor) -> Tensor:
        """Record the input's ranges and return it."""
        x = super().forward(x_orig)
        self.equalization_shape = [1, x.size(1)] + [1] * (x.ndim - 2)
        return x

    def get_input_minmax(self) -> tuple[Tensor, Tensor]:
        """Return the least and greatest values of each column."""
        return self.columns.min_val, self.columns.max_val

    def set_equalization_scale(self, equalization_scale: Tensor) -> None:
        """Set the factors of the input's columns."""
        if not _is_trivial(equalization_scale):
            self.equalization_scale = equalization_scale.reshape(self.equalization_shape)

    def calculate_scaled_minmax(self) -> tuple[Tensor | None, Tensor | None]:
        """Return the least and greatest values of the scaled input; None without factors."""
        if _is_trivial(self.equalization_scale):
            warn("Must call calculate_equalization_scale before calling calculate_scaled_minmax. "
                 "Will not scale the next quantization observer.", UserWarning)
            return None, None
        low, high = self.get_input_minmax()
        scale = reshape_scale(self.equalization_scale, 0, low)
        return (low * scale).min(), (high * scale).max()


class _WeightEqualizationObserver(_ColumnObserver):
    """Records the ranges of the columns of a layer's weight."""

    def __init__(
        self, dtype: Any = qint8, qscheme: Any = per_tensor_affine, quant_min: int | None = None,
        quant_max: int | None = None, factory_kwargs: Any = None,
    ) -> None:
        super().__init__(dtype, qscheme, quant_min, quant_max, factory_kwargs)
        self.ch_axis = 1

    def get_weight_col_minmax(self) -> tuple[Tensor, Tensor]:
        """Return the least and greatest values of each column."""
        return self.columns.min_val, self.columns.max_val

    def set_equalization_scale(self, equalization_scale: Tensor) -> None:
        """Set the factors by which the columns are divided."""
        self.equalization_scale = equalization_scale


def calculate_equalization_scale(
    input_obs: _InputEqualizationObserver, weight_obs: _WeightEqualizationObserver
) -> Tensor:
    """Return the factors of a layer's input columns; the number 1, with a warning, if one of the
    observers saw nothing. ValueError if input and weight have different numbers of columns."""
    (low_x, high_x), (low_w, high_w) = (input_obs.get_input_minmax(),
                                        weight_obs.get_weight_col_minmax())
    if 0 in (low_x.numel(), low_w.numel()):
        warn("Must run observer before calling calculate_equalization_scale. Returning default "
             "equalization scale torch.tensor(1).", UserWarning)
        return ops.tensor(1)
    if low_x.shape != low_w.shape:
        raise ValueError("Input and Weight must have the same column dimension. Found "
                         f"{low_x.shape} and {low_w.shape} shapes instead.")
    scale = ((high_w - low_w) / (high_x - low_x)).sqrt()
    scale = ops.where(scale == 0, ops.ones_like(scale), scale)  # constant columns stay
    return ops.nan_to_num(scale, nan=1, posinf=1, neginf=1)


class _Observers(NamedTuple):
    input_activation: Any = nn.Identity
    weight: Any = nn.Identity


class EqualizationQConfig(_Observers):
    """Classes of the observers that equalize a layer: of its input, and of its weight.

    ValueError for observers in place of classes.
    """

    __slots__ = ()

    def __new__(
        cls, input_activation: Any = nn.Identity, weight: Any = nn.Identity
    ) -> EqualizationQConfig:
        """Check that neither is a module."""
        if isinstance(input_activation, Module) or isinstance(weight, Module):
            raise ValueError(
                "EqualizationQConfig received observer instance, please pass observer class "
                "instead. Use MyObserver.with_args(x=1) to override arguments to constructor if "
                "needed")
        return super().__new__(cls, input_activation, weight)


input_equalization_observer = _InputEqualizationObserver.with_args(
    dtype=quint8, qscheme=per_tensor_symmetric)
weight_equalization_observer = _WeightEqualizationObserver.with_args(
    dtype=qint8, qscheme=per_channel_symmetric)
default_equalization_qconfig = EqualizationQConfig(
    input_activation=input_equalization_observer, weight=weight_equalization_observer)


def node_supports_equalization(node: Node, modules: dict[str, Any]) -> bool:
    """Whether a node is a linear layer or convolution, as a module or a function."""
    if node.op == "call_module":
        return type(modules[str(node.target)]) in (*_LAYERS, *_FUSED, *CUSTOM_MODULE_SUPP_LIST)
    return node.op == "call_function" and node.target in _FUNCTIONS


class _Equalization:
    """Replaces the observers of one prepared model by scaled weights and inputs."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.qconfigs = model.meta["_observed_graph_module_attrs"].equalization_node_name_to_qconfig
        self.scales: dict[Node, Tensor] = {}  # of layers

    def run(self) -> None:
        """Measure all layers, then scale their weights and inputs."""
        for node, observer in self._list_input_observers():
            self._measure(node, observer)
        for node in list(self.model.graph.nodes):
            if node in self.scales:
                self._scale_layer(node)
            elif isinstance(self._find_module(node), _InputEqualizationObserver):
                self._scale_input(node)

    def _find_module(self, node: Any) -> Any:
        is_module = isinstance(node, Node) and node.op == "call_module"
        return self.modules[str(node.target)] if is_module else None

    def _list_input_observers(self) -> Iterator[tuple[Node, _InputEqualizationObserver]]:
        for node in self.model.graph.nodes:
            observer = self._find_module(node)
            if isinstance(observer, _InputEqualizationObserver):
                yield node, observer

    def _find_layer(self, node: Node) -> Any:
        """Return the module that holds a layer's weight: the first of a fused one."""
        module = self._find_module(node)
        return module[0] if type(module) in _FUSED else module

    def _find_weight_observer(self, node: Node) -> Node | None:
        """Return the node that observes the weight of a function's call."""
        return next((arg for arg in node.all_input_nodes if isinstance(
            self._find_module(arg), _WeightEqualizationObserver)), None)

    def _measure(self, node: Node, observer: _InputEqualizationObserver) -> None:
        """Compute the factors of the layer behind an observer of inputs."""
        layer = next((user for user in node.users
                      if node_supports_equalization(user, self.modules)), None)
        assert layer is not None, (
            "Expected an operation node after the input equalization observer")
        if layer.op == "call_module":
            qconfig = self.qconfigs.get(layer.name)
            assert qconfig is not None, f"No equalization qconfig found for op node {layer.name}"
            weight_observer = qconfig.weight()
            weight_observer(self._find_layer(layer).weight)
        else:
            weight_observer = self._find_module(self._find_weight_observer(layer))
            if weight_observer is None:
                return
        scale = calculate_equalization_scale(observer, weight_observer)
        observer.set_equalization_scale(scale)
        self.scales[layer] = scale

    def _find_next_scale(self, layer: Node) -> Tensor | None:
        """Return the factors of a layer's output, if the layer behind it is equalized."""
        node: Any = next((user for user in layer.users
                          if isinstance(self._find_module(user), nn.ReLU)
                          or (user.op == "call_function" and user.target is F.relu)), layer)
        for kind in (ObserverBase, _InputEqualizationObserver):
            node = next((user for user in node.users
                         if isinstance(self._find_module(user), kind)), None)
            if node is None:
                return None
        scale: Tensor = self._find_module(node).equalization_scale
        return None if _is_trivial(scale) else scale

    def _scale_layer(self, layer: Node) -> None:
        """Divide a layer's weight by its factors, and multiply its rows by the next layer's."""
        scale, after = self.scales[layer], self._find_next_scale(layer)
        if layer.op == "call_module":
            module = self._find_layer(layer)
            owners = [(module, "weight"), (module, "bias")]
        else:
            observed = self._find_weight_observer(layer)
            quantizing: Any = observed.args[0]  # type: ignore[union-attr]
            owners = [self._find_owner(quantizing.args[0])]
            owners += [self._find_owner(arg) for arg in layer.args[2:3] if isinstance(arg, Node)]
            self._find_module(quantizing).reset_min_max_vals()
            self._remove(observed)
        if _is_trivial(scale):
            return
        self._scale(*owners[0], scale.reciprocal(), 1)
        if after is not None:
            for owner, name in owners:
                self._scale(owner, name, after, 0)

    def _find_owner(self, node: Any) -> tuple[Any, str]:
        """Return the module and the name of an attribute that a node reads."""
        assert node.op == "get_attr", "Expected weight node to be a 'get_attr' Node"
        path, _, name = str(node.target).rpartition(".")
        return self.modules[path], name

    def _scale(self, owner: Any, name: str, scale: Tensor, axis: int) -> None:
        """Multiply an attribute by factors along an axis."""
        value = getattr(owner, name)
        if value is not None:
            scaled = (value * reshape_scale(scale, axis, value)).detach()
            setattr(owner, name, Parameter(scaled) if isinstance(value, Parameter) else scaled)

    def _scale_input(self, node: Node) -> None:
        """Multiply a layer's input by its factors, unless the layer before does so."""
        quantizing: Any = node.args[0]
        source = quantizing.args[0]
        observer = self._find_module(node)
        self._remove(node)
        if node_supports_equalization(source, self.modules) or "relu" in source.name:
            return
        low, high = observer.calculate_scaled_minmax()
        quantizer = self._find_module(quantizing)
        if low is not None and isinstance(quantizer, ObserverBase):
            quantizer.min_val, quantizer.max_val = low, high
        name = find_free_name(self.model, f"{source.name}_equalization_scale")
        setattr(self.model, name, observer.equalization_scale)
        with self.model.graph.inserting_before(quantizing):
            scale = self.model.graph.create_node("get_attr", name)
            product = self.model.graph.create_node("call_function", ops.mul, (source, scale))
        quantizing.replace_input_with(source, product)

    def _remove(self, node: Any) -> None:
        """Remove an observer's node; its users take what it observed."""
        node.replace_all_uses_with(node.args[0])
        self.model.graph.erase_node(node)


def equalize(model: Any) -> None:
    """Equalize the layers of a prepared model that has equalization observers, in place."""
    _Equalization(model).run()


def _convert_equalization_ref(model: Any) -> GraphModule:
    """Return a prepared model with equalized layers, in floats."""
    equalize(model)
    return GraphModule(model, model.graph)
