"""Recurrent layers and cells of torch.ao.nn.quantized.reference."""

from __future__ import annotations

from typing import Any

from ......nn import modules as float_modules
from ......nn.modules.rnnbase import RNNBase
from ......tensor import Tensor
from ......tensor.dtypes import QuantizedDtype
from .utils import WeightRounding, adopt


class _Rounded(float_modules.module.Module):
    """Base class with several weights, rounded as described by a dictionary by name."""

    _IS_REFERENCE = True
    _FLOAT: Any
    _roundings: dict[str, WeightRounding]

    def __init__(
        self, *args: Any, weight_qparams_dict: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        self._roundings = {}
        self._FLOAT.__init__(self, *args, **kwargs)
        values = weight_qparams_dict or {}
        decomposed = {"is_decomposed": values.get("is_decomposed", False)}
        for name, _ in list(self.named_parameters(recurse=False)):
            if name.startswith("weight"):
                parameters = values.get(name)
                self._roundings[name] = WeightRounding(
                    self, name, None if parameters is None else {**parameters, **decomposed})

    def _round(self, name: str) -> Any:
        """Return a weight, rounded if it has a rounding."""
        rounding = self._roundings.get(name)
        return getattr(self, name, None) if rounding is None else rounding.round(self)

    def pack(self) -> tuple[dict[str, Any], Any]:
        """Return weights, as a dynamic layer packs them, and biases by name, and their dtype.

        Weights that are rounded to float16 are returned as floats.
        """
        dtype = next(iter(self._roundings.values())).dtype
        tensors = {name: value.detach() for name, value in self.named_parameters(recurse=False)}
        if isinstance(dtype, QuantizedDtype):
            tensors |= {name: r.quantize(self) for name, r in self._roundings.items()}
        return tensors, dtype

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}(Reference)"


class _Cell(_Rounded):
    def _flambeau_weights(self) -> tuple[Any, ...]:
        return tuple(map(self._round, ("weight_ih", "weight_hh", "bias_ih", "bias_hh")))

    def get_weight_ih(self) -> Tensor:
        """Return the rounded weights of the input."""
        result: Tensor = self._round("weight_ih")
        return result

    def get_weight_hh(self) -> Tensor:
        """Return the rounded weights of the state."""
        result: Tensor = self._round("weight_hh")
        return result

    def get_quantized_weight_ih(self) -> Tensor:
        """Return the input weights as integers."""
        return self._roundings["weight_ih"].quantize(self)

    def get_quantized_weight_hh(self) -> Tensor:
        """Return the state weights as integers."""
        return self._roundings["weight_hh"].quantize(self)

    @classmethod
    def from_float(cls, mod: Any, weight_qparams_dict: dict[str, Any]) -> Any:
        """Create a cell with a float cell's weights."""
        options = {"nonlinearity": mod.nonlinearity} if hasattr(mod, "nonlinearity") else {}
        result = cls(mod.input_size, mod.hidden_size, mod.bias,
                     weight_qparams_dict=weight_qparams_dict, **options)
        return adopt(result, mod)


class RNNCell(_Cell, float_modules.RNNCell):
    """A step of an RNN with rounded weights."""

    _FLOAT = float_modules.RNNCell


class LSTMCell(_Cell, float_modules.LSTMCell):
    """A step of an LSTM with rounded weights."""

    _FLOAT = float_modules.LSTMCell


class GRUCell(_Cell, float_modules.GRUCell):
    """A step of a GRU with rounded weights."""

    _FLOAT = float_modules.GRUCell


class _Layers(_Rounded):
    _flat_weights_names: list[str]

    @property
    def _flat_weights(self) -> list[Any]:
        """Return the rounded weights in the operators' order."""
        return self.get_flat_weights()

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Any]) -> None:
        RNNBase._flat_weights.fset(self, weights)  # type: ignore[attr-defined]

    def get_flat_weights(self) -> list[Any]:
        """Return the rounded weights, and the biases."""
        return [self._round(name) for name in self._flat_weights_names]

    @classmethod
    def from_float(cls, mod: Any, weight_qparams_dict: dict[str, Any]) -> Any:
        """Create a layer with a float layer's weights."""
        result = cls(mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first,
                     mod.dropout, mod.bidirectional, weight_qparams_dict=weight_qparams_dict)
        return adopt(result, mod)


class LSTM(_Layers, float_modules.LSTM):
    """An LSTM with rounded weights."""

    _FLOAT = float_modules.LSTM


class GRU(_Layers, float_modules.GRU):
    """A GRU with rounded weights."""

    _FLOAT = float_modules.GRU
