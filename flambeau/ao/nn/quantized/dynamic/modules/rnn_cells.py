"""Recurrent cells whose weights are qint8."""

from __future__ import annotations

from typing import Any

from ...... import ops
from ......nn import modules as float_modules
from ......nn.module import Module
from ......ops.quantized import recurrent
from ......tensor import Tensor
from ......tensor.dtypes import qint8
from .rnn import find_observed_dtype, pack_weight_bias, quantize_for


class RNNCellBase(Module):
    """Base class of the cells."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, num_chunks: int = 4,
        dtype: Any = qint8,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.weight_dtype = dtype
        rows = num_chunks * hidden_size
        self.bias_ih = self.bias_hh = None
        if bias:
            self.bias_ih, self.bias_hh = ops.randn(rows), ops.randn(rows)
        weights = [ops.randn(rows, width) for width in (input_size, hidden_size)]
        if dtype is qint8:
            weights = [ops.quantize_per_tensor(w, 1, 0, qint8) for w in weights]
        self._pack(weights[0], self.bias_ih, weights[1], self.bias_hh)

    def _pack(self, w_ih: Tensor, b_ih: Any, w_hh: Tensor, b_hh: Any) -> None:
        self._packed_weight_ih = pack_weight_bias(w_ih, b_ih, self.weight_dtype)
        self._packed_weight_hh = pack_weight_bias(w_hh, b_hh, self.weight_dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedRNNBase"

    def extra_repr(self) -> str:
        """Sizes and settings."""
        settings = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            settings += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            settings += f", nonlinearity={self.nonlinearity}"
        return settings

    def _run_step(self, cell: Any, input: Tensor, hx: Any, states: int) -> Any:
        if input.size(1) != self.input_size:
            raise RuntimeError("input has inconsistent input_size: got "
                               f"{input.size(1)}, expected {self.input_size}")
        if hx is None:
            zeros = ops.zeros(input.size(0), self.hidden_size, dtype=input.dtype)
            hx = (zeros, zeros) if states == 2 else zeros
        for i, h in enumerate(hx if states == 2 else (hx,)):
            label = f"[{i}]" if states == 2 else ""
            if input.size(0) != h.size(0):
                raise RuntimeError(f"Input batch size {input.size(0)} doesn't match hidden{label} "
                                   f"batch size {h.size(0)}")
            if h.size(1) != self.hidden_size:
                raise RuntimeError(f"hidden{label} has inconsistent hidden_size: got {h.size(1)}, "
                                   f"expected {self.hidden_size}")
        return cell(input, hx, self._packed_weight_ih, self._packed_weight_hh, self.bias_ih,
                    self.bias_hh)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The cell of a float one that has a `qconfig`."""
        cell_classes: dict[type, Any] = {float_modules.LSTMCell: LSTMCell,
                                         float_modules.GRUCell: GRUCell,
                                         float_modules.RNNCell: RNNCell}
        assert type(mod) in cell_classes, (
            "nn.quantized.dynamic.RNNCellBase.from_float only works for nn.LSTMCell, nn.GRUCell "
            "and nn.RNNCell")
        make_observer, dtype = find_observed_dtype(mod)
        assert mod.bias, "mod.bias must be True"
        return cls._from_weights(cell_classes[type(mod)], mod, {
            "weight_ih": quantize_for(mod.weight_ih, make_observer, dtype),
            "weight_hh": quantize_for(mod.weight_hh, make_observer, dtype),
            "bias_ih": mod.bias_ih.detach(), "bias_hh": mod.bias_hh.detach()}, dtype)

    @classmethod
    def from_reference(cls, ref_mod: Any) -> Any:
        """The cell of a reference one."""
        return cls._from_weights(cls, ref_mod, *ref_mod.pack())

    @classmethod
    def _from_weights(cls, cell_class: Any, mod: Any, parameters: dict[str, Any],
                      dtype: Any) -> Any:
        options = {"nonlinearity": mod.nonlinearity} if hasattr(mod, "nonlinearity") else {}
        result = cell_class(mod.input_size, mod.hidden_size, bias=True, dtype=dtype, **options)
        result._pack(parameters["weight_ih"], parameters["bias_ih"], parameters["weight_hh"],
                     parameters["bias_hh"])
        return result

    def _weight_bias(self) -> dict[str, dict[str, Any]]:
        w_ih, b_ih = self._packed_weight_ih.unpack()
        w_hh, b_hh = self._packed_weight_hh.unpack()
        return {"weight": {"weight_ih": w_ih, "weight_hh": w_hh},
                "bias": {"bias_ih": b_ih, "bias_hh": b_hh}}

    def get_weight(self) -> dict[str, Tensor]:
        """The weights by name."""
        return self._weight_bias()["weight"]

    def get_bias(self) -> dict[str, Tensor]:
        """The biases by name."""
        return self._weight_bias()["bias"]

    def set_weight_bias(self, weight_bias_dict: dict[str, dict[str, Any]]) -> None:
        """Pack other weights."""
        weight, bias = weight_bias_dict["weight"], weight_bias_dict["bias"]
        self._pack(weight["weight_ih"], bias["bias_ih"], weight["weight_hh"], bias["bias_hh"])

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "_packed_weight_ih"] = self._packed_weight_ih
        destination[prefix + "_packed_weight_hh"] = self._packed_weight_hh

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *lists: Any
    ) -> None:
        self._packed_weight_ih = state_dict.pop(prefix + "_packed_weight_ih")
        self._packed_weight_hh = state_dict.pop(prefix + "_packed_weight_hh")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *lists)


class RNNCell(RNNCellBase):
    """An Elman cell with tanh or relu.

    >>> torch.ao.nn.quantized.dynamic.RNNCell(10, 20)(torch.randn(3, 10)).shape
    torch.Size([3, 20])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        dtype: Any = qint8,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, dtype=dtype)
        self.nonlinearity = nonlinearity

    def _get_name(self) -> str:
        return "DynamicQuantizedRNNCell"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Any:
        """The next hidden state."""
        cells = {"tanh": recurrent.quantized_rnn_tanh_cell_dynamic,
                 "relu": recurrent.quantized_rnn_relu_cell_dynamic}
        if self.nonlinearity not in cells:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._run_step(cells[self.nonlinearity], input, hx, 1)


class LSTMCell(RNNCellBase):
    """A cell of an LSTM.

    >>> h, c = torch.ao.nn.quantized.dynamic.LSTMCell(10, 20)(torch.randn(3, 10))
    >>> h.shape
    torch.Size([3, 20])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = qint8
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, dtype=dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedLSTMCell"

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """(h, c)."""
        return self._run_step(recurrent.quantized_lstm_cell_dynamic, input, hx, 2)


class GRUCell(RNNCellBase):
    """A cell of a GRU.

    >>> torch.ao.nn.quantized.dynamic.GRUCell(10, 20)(torch.randn(3, 10)).shape
    torch.Size([3, 20])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = qint8
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, dtype=dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedGRUCell"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Any:
        """The next hidden state."""
        return self._run_step(recurrent.quantized_gru_cell_dynamic, input, hx, 1)
