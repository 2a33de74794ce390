"""LSTM and GRU with qint8 weights; inputs and states are quantized dynamically by their range."""

from __future__ import annotations

import numbers
from typing import Any

from ...... import ops
from ......native.foundation.user_frames import warn
from ......nn import modules as float_modules
from ......nn.module import Module
from ......nn.utils.rnn import PackedSequence
from ......ops.quantized import packed_linear, recurrent
from ......tensor import Tensor
from ......tensor.dtypes import float16, qint8
from ...modules.weights import format_module, quantize_weight

_GATES = {"LSTM": 4, "GRU": 3}


class PackedParameter(Module):
    """The packed weights of a layer and direction, as a child of a module."""

    def __init__(self, param: Any) -> None:
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = self.param

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *lists: Any
    ) -> None:
        self.param = state_dict.pop(prefix + "param")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *lists)


def pack_weight_bias(qweight: Tensor, bias: Tensor | None, dtype: Any) -> Any:
    """Pack qint8 weights, or float32 weights to be rounded to float16."""
    if dtype is qint8:
        return packed_linear.linear_prepack(qweight, bias)
    return packed_linear.linear_prepack_fp16(qweight, bias)


def find_observed_dtype(mod: Any) -> tuple[Any, Any]:
    """Return the observer of a module's weights and its dtype."""
    from ......ao.quantization.qconfig import default_dynamic_qconfig

    assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined"
    qconfig = mod.qconfig if mod.qconfig is not None and mod.qconfig.weight is not None \
        else default_dynamic_qconfig
    dtype = qconfig.weight().dtype
    if dtype not in (qint8, float16):
        raise RuntimeError(f"Unsupported dtype for dynamic RNN quantization: {dtype}")
    return qconfig.weight, dtype


def quantize_for(weight: Tensor, make_observer: Any, dtype: Any) -> Tensor:
    """Return weights in the form that their module packs."""
    weight = weight.detach().float()
    if dtype is not qint8:
        return weight
    observer = make_observer()
    observer(weight)
    return quantize_weight(weight, observer)


class RNNBase(Module):
    """Base class of LSTM and GRU."""

    _version = 2

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1,
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, dtype: Any = qint8,
    ) -> None:
        super().__init__()
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.dtype = float(dropout), bidirectional, dtype
        self.version: int | None = 2
        self.training = False
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 \
                or isinstance(dropout, bool):
            raise ValueError("dropout should be a number in range [0, 1] representing the "
                             "probability of an element being zeroed")
        if dropout > 0 and num_layers == 1:
            warn("dropout option adds dropout after all but last recurrent layer, so non-zero "
                 f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                 f"num_layers={num_layers}", UserWarning)
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.set_weight_bias(self._draw_weights())

    def _list_layers(self) -> list[tuple[str, int]]:
        """Return the suffix of each layer and direction, and its input's number of features."""
        directions = ("", "_reverse") if self.bidirectional else ("",)
        return [(f"_l{layer}{direction}",
                 self.hidden_size * len(directions) if layer else self.input_size)
                for layer in range(self.num_layers) for direction in directions]

    def _draw_weights(self) -> dict[str, Any]:
        gates = _GATES[self.mode] * self.hidden_size
        weights: dict[str, Any] = {}
        for suffix, features in self._list_layers():
            for source, width in (("ih", features), ("hh", self.hidden_size)):
                weight = ops.randn(gates, width)
                if self.dtype is qint8:
                    weight = ops.quantize_per_tensor(weight, 0.1, 0, qint8)
                weights[f"weight_{source}{suffix}"] = weight
                weights[f"bias_{source}{suffix}"] = ops.randn(gates)
        return weights

    def set_weight_bias(self, weight_bias_dict: dict[str, Any]) -> None:
        """Pack other weights, given by the float module's parameter names."""
        reduce_range = self.version is not None and self.version >= 2
        cells = []
        for suffix, _ in self._list_layers():
            packed: Any = [pack_weight_bias(weight_bias_dict[f"weight_{source}{suffix}"],
                                            weight_bias_dict[f"bias_{source}{suffix}"], self.dtype)
                      for source in ("ih", "hh")]
            cells.append(PackedParameter(recurrent.CellParams(packed[0], packed[1], reduce_range)))
        self._all_weight_values = float_modules.ModuleList(cells)

    def extra_repr(self) -> str:
        """Return sizes and settings."""
        settings = f"{self.input_size}, {self.hidden_size}"
        defaults = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0,
                    "bidirectional": False}
        for name, default in defaults.items():
            if getattr(self, name) != default:
                settings += f", {name}={getattr(self, name)}"
        return settings

    def __repr__(self) -> str:
        return format_module(self, (PackedParameter, float_modules.ModuleList))

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *lists: Any
    ) -> None:
        self.version = local_metadata.get("version", None)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *lists)

    def _weight_bias(self) -> dict[str, dict[str, Any]]:
        result: dict[str, dict[str, Any]] = {"weight": {}, "bias": {}}
        for (suffix, _), cell in zip(self._list_layers(), self._all_weight_values, strict=True):
            params: Any = cell.param
            for source, packed in (("ih", params.packed_ih), ("hh", params.packed_hh)):
                weight, bias = packed.unpack()
                result["weight"][f"weight_{source}{suffix}"] = weight
                result["bias"][f"bias_{source}{suffix}"] = bias
        return result

    def get_weight(self) -> dict[str, Tensor]:
        """Return the weights by name."""
        return self._weight_bias()["weight"]

    def get_bias(self) -> dict[str, Tensor]:
        """Return the biases by name."""
        return self._weight_bias()["bias"]

    def _check(self, input: Tensor, states: tuple[Tensor, ...], packed: bool, count: int) -> None:
        expected_dim = 2 if packed else 3
        if input.dim() != expected_dim:
            raise RuntimeError(f"input must have {expected_dim} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError("input.size(-1) must be equal to input_size. Expected "
                               f"{self.input_size}, got {input.size(-1)}")
        expected = (len(self._list_layers()), count, self.hidden_size)
        for i, state in enumerate(states):
            if tuple(state.shape) != expected:
                position = f"[{i}]" if len(states) > 1 else ""
                raise RuntimeError(f"Expected hidden{position} size {expected}, got "
                                   f"{list(state.shape)}" if position else
                                   f"Expected hidden size {expected}, got {list(state.shape)}")

    def _run(self, input: Any, hx: Any, function: Any, states: int) -> tuple[Any, Any]:
        """Return output and states for a tensor or a packed sequence."""
        packed = isinstance(input, PackedSequence)
        sequence: Any = input if packed else (input, None, None, None)
        data, batch_sizes, order, unsorted = sequence
        count = int(batch_sizes[0]) if packed else data.size(0 if self.batch_first else 1)
        if hx is None:
            shape = (len(self._list_layers()), count, self.hidden_size)
            hx = tuple(ops.zeros(shape, dtype=data.dtype) for _ in range(states))
        else:
            hx = tuple(hx) if states > 1 else (hx,)
            if order is not None:
                hx = tuple(h.index_select(1, order) for h in hx)
        self._check(data, hx, packed, count)
        params: list[Any] = [cell.param for cell in self._all_weight_values]
        state: Any = hx if states > 1 else hx[0]
        options = (params, self.bias, self.num_layers, self.dropout, self.training,
                   self.bidirectional)
        if packed:
            y, *last = function(data, batch_sizes, state, *options)
            y = PackedSequence(y, batch_sizes, order, unsorted)
        else:
            y, *last = function(data, state, *options, self.batch_first)
        if unsorted is not None:
            last = [h.index_select(1, unsorted) for h in last]
        return y, tuple(last) if states > 1 else last[0]

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Convert a float LSTM or GRU that has a `qconfig`."""
        assert type(mod) in (float_modules.LSTM, float_modules.GRU), (
            "nn.quantized.dynamic.RNNBase.from_float only works for nn.LSTM and nn.GRU")
        make_observer, dtype = find_observed_dtype(mod)
        assert mod.bias, "mod.bias must be True"
        return cls._from_weights(mod, {
            name: quantize_for(parameter, make_observer, dtype)
            if name.startswith("weight") else parameter.detach()
            for name, parameter in mod.named_parameters()}, dtype)

    @classmethod
    def from_reference(cls, ref_mod: Any) -> Any:
        """Convert a reference layer."""
        return cls._from_weights(ref_mod, *ref_mod.pack())

    @classmethod
    def _from_weights(cls, mod: Any, weights: dict[str, Any], dtype: Any) -> Any:
        layer_class: Any = LSTM if mod.mode == "LSTM" else GRU
        result = layer_class(mod.input_size, mod.hidden_size, mod.num_layers, mod.bias,
                             mod.batch_first,
                             mod.dropout, mod.bidirectional, dtype)
        result.set_weight_bias(weights)
        return result


class LSTM(RNNBase):
    """An LSTM on float32 tensors whose products use 8-bit integers.

    >>> layer = torch.ao.nn.quantized.dynamic.LSTM(10, 20, 2)
    >>> y, (h, c) = layer(torch.randn(5, 3, 10))
    >>> y.shape, h.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    _FLOAT_MODULE = float_modules.LSTM

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _get_name(self) -> str:
        return "DynamicQuantizedLSTM"

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Return (output, (h, c))."""
        return self._run(input, hx, recurrent.quantized_lstm, 2)


class GRU(RNNBase):
    """A GRU on float32 tensors whose products use 8-bit integers.

    >>> layer = torch.ao.nn.quantized.dynamic.GRU(10, 20)
    >>> layer(torch.randn(5, 3, 10))[0].shape
    torch.Size([5, 3, 20])
    """

    _FLOAT_MODULE = float_modules.GRU

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)

    def _get_name(self) -> str:
        return "DynamicQuantizedGRU"

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Return (output, h)."""
        return self._run(input, hx, recurrent.quantized_gru, 1)
