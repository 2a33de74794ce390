"""LSTM made of linear layers, sums and products, so that each of its results can be observed."""

from __future__ import annotations

from typing import Any

from ..... import ops
from .....native.foundation.user_frames import warn
from .....nn import modules
from .....nn.module import Module
from .....nn.parameter import Parameter
from .....tensor import Tensor
from .....tensor.dtypes import quint8
from ...quantized.modules.functional_modules import FloatFunctional
from ..steps import Steps

State = tuple[Any, Any]
_GATES = ("input", "forget", "cell", "output")


class LSTMCell(Module):
    """One LSTM step composed of linear layers, sums and products that can be quantized.

    `split_gates`: one linear layer per gate instead of one for all four.

    >>> cell = torch.ao.nn.quantizable.LSTMCell(3, 2)
    >>> h, c = cell(torch.zeros(4, 3))
    >>> h.shape
    torch.Size([4, 2])
    """

    _FLOAT_MODULE: Any = modules.LSTMCell
    __constants__ = ("split_gates",)

    igates: Any
    hgates: Any
    gates: Any

    def __init__(
        self, input_dim: int, hidden_dim: int, bias: bool = True, device: Any = None,
        dtype: Any = None, *, split_gates: bool = False,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_dim, hidden_dim
        self.bias, self.split_gates = bias, split_gates

        def linear(size: int, outputs: int) -> Module:
            return modules.Linear(size, outputs, bias, device, dtype)

        if split_gates:
            self.igates, self.hgates, self.gates = (modules.ModuleDict() for _ in range(3))
            for gate in _GATES:
                self.igates[gate] = linear(input_dim, hidden_dim)
                self.hgates[gate] = linear(hidden_dim, hidden_dim)
                self.gates[gate] = FloatFunctional()
        else:
            self.igates = linear(input_dim, 4 * hidden_dim)
            self.hgates = linear(hidden_dim, 4 * hidden_dim)
            self.gates = FloatFunctional()
        self.input_gate, self.forget_gate = modules.Sigmoid(), modules.Sigmoid()
        self.cell_gate, self.output_gate = modules.Tanh(), modules.Sigmoid()
        self.fgate_cx, self.igate_cgate = FloatFunctional(), FloatFunctional()
        self.fgate_cx_igate_cgate, self.ogate_cy = FloatFunctional(), FloatFunctional()
        self.initial_hidden_state_qparams: tuple[float, int] = (1.0, 0)
        self.initial_cell_state_qparams: tuple[float, int] = (1.0, 0)
        self.hidden_state_dtype = self.cell_state_dtype = quint8

    def forward(self, x: Tensor, hidden: State | None = None) -> State:
        """Return the next hidden and cell state (batch, hidden_size) for x (batch, input_size)."""
        if hidden is None or hidden[0] is None or hidden[1] is None:
            hidden = self.initialize_hidden(x.shape[0], x.is_quantized)
        h, c = hidden
        input_gate, forget_gate, cell_gate, output_gate = self._project(x, h)
        input_gate, forget_gate = self.input_gate(input_gate), self.forget_gate(forget_gate)
        cell_gate, output_gate = self.cell_gate(cell_gate), self.output_gate(output_gate)
        retained = self.fgate_cx.mul(forget_gate, c)
        c = self.fgate_cx_igate_cgate.add(retained, self.igate_cgate.mul(input_gate, cell_gate))
        return self.ogate_cy.mul(output_gate, ops.tanh(c)), c

    def _project(self, x: Tensor, h: Tensor) -> Any:
        """Return the four gates before their activations."""
        if not self.split_gates:
            return self.gates.add(self.igates(x), self.hgates(h)).chunk(4, 1)
        return [self.gates[gate].add(self.igates[gate](x), self.hgates[gate](h))
                for gate in _GATES]

    def initialize_hidden(self, batch_size: int, is_quantized: bool = False) -> State:
        """Return zeros for the first step."""
        h, c = (ops.zeros((batch_size, self.hidden_size)) for _ in range(2))
        if is_quantized:
            h = ops.quantize_per_tensor(
                h, *self.initial_hidden_state_qparams, self.hidden_state_dtype)
            c = ops.quantize_per_tensor(
                c, *self.initial_cell_state_qparams, self.cell_state_dtype)
        return h, c

    def _get_name(self) -> str:
        return "QuantizableLSTMCell"

    @classmethod
    def from_params(
        cls, wi: Tensor, wh: Tensor, bi: Tensor | None = None, bh: Tensor | None = None,
        split_gates: bool = False,
    ) -> LSTMCell:
        """Create a cell from the weights and biases of inputs and hidden states."""
        assert (bi is None) == (bh is None), "bi and bh must both be None or both have values"
        cell = cls(wi.shape[1], wh.shape[1], bi is not None, split_gates=split_gates)
        for weight, bias, layers in ((wi, bi, cell.igates), (wh, bh, cell.hgates)):
            targets = list(layers.values()) if split_gates else [layers]
            for layer, chunk in zip(targets, weight.chunk(len(targets), 0), strict=True):
                layer.weight = Parameter(chunk.detach())
            if bias is not None:
                for layer, chunk in zip(targets, bias.chunk(len(targets), 0), strict=True):
                    layer.bias = Parameter(chunk.detach())
        return cell

    @classmethod
    def from_float(
        cls, other: Any, use_precomputed_fake_quant: bool = False, split_gates: bool = False
    ) -> LSTMCell:
        """Create a cell from an `nn.LSTMCell` that has a `qconfig`."""
        assert type(other) is cls._FLOAT_MODULE, \
            f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}"
        assert hasattr(other, "qconfig"), "The float module must have 'qconfig'"
        observed = cls.from_params(other.weight_ih, other.weight_hh, other.bias_ih, other.bias_hh,
                                   split_gates)
        observed.qconfig = other.qconfig
        for layers in (observed.igates, observed.hgates):
            layers.qconfig = other.qconfig
            for layer in layers.values() if split_gates else ():
                layer.qconfig = other.qconfig
        return observed


class _LSTMSingleLayer(Module):
    """One direction of a layer: runs the cell step by step."""

    def __init__(
        self, input_dim: int, hidden_dim: int, bias: bool = True, device: Any = None,
        dtype: Any = None, *, split_gates: bool = False,
    ) -> None:
        super().__init__()
        self.cell = LSTMCell(input_dim, hidden_dim, bias, device, dtype, split_gates=split_gates)

    def forward(self, x: Tensor, hidden: Any = None) -> tuple[Tensor, Any]:
        """Return the hidden states (length, batch, hidden_size), and the last states."""
        outputs = []
        for i in range(x.shape[0]):
            hidden = self.cell(x[i], hidden)
            outputs.append(hidden[0])
        return ops.stack(outputs, 0), hidden

    @classmethod
    def from_params(cls, *args: Any, **kwargs: Any) -> _LSTMSingleLayer:
        """Create a layer from a cell's weights and biases."""
        cell = LSTMCell.from_params(*args, **kwargs)
        layer = cls(cell.input_size, cell.hidden_size, cell.bias, split_gates=cell.split_gates)
        layer.cell = cell
        return layer


class _LSTMLayer(Module):
    """A layer of one or two directions."""

    def __init__(
        self, input_dim: int, hidden_dim: int, bias: bool = True, batch_first: bool = False,
        bidirectional: bool = False, device: Any = None, dtype: Any = None, *,
        split_gates: bool = False,
    ) -> None:
        super().__init__()
        self.batch_first, self.bidirectional = batch_first, bidirectional
        for name in ("layer_fw", "layer_bw")[: 1 + bidirectional]:
            setattr(self, name, _LSTMSingleLayer(
                input_dim, hidden_dim, bias, device, dtype, split_gates=split_gates))

    def forward(self, x: Tensor, hidden: Any = None) -> tuple[Tensor, State]:
        """Return the hidden states of all steps, and the last states of each direction."""
        if self.batch_first:
            x = x.transpose(0, 1)
        if not self.bidirectional:
            y, (h, c) = self.layer_fw(x, hidden)
        else:
            states = [None, None] if hidden is None or hidden[0] is None else [
                (hidden[0][i], hidden[1][i]) for i in range(2)]
            forward, (h_forward, c_forward) = self.layer_fw(x, states[0])
            backward, (h_backward, c_backward) = self.layer_bw(x.flip(0), states[1])
            y = ops.cat([forward, backward.flip(0)], forward.dim() - 1)
            h, c = ops.stack([h_forward, h_backward], 0), ops.stack([c_forward, c_backward], 0)
        return (y.transpose(0, 1) if self.batch_first else y), (h, c)

    @classmethod
    def from_float(
        cls, other: Any, layer_idx: int = 0, qconfig: Any = None, **kwargs: Any
    ) -> _LSTMLayer:
        """Create a layer from one of an `nn.LSTM`."""
        assert hasattr(other, "qconfig") or qconfig is not None, \
            "other must have qconfig or qconfig must be provided"
        names = ("input_size", "hidden_size", "bias", "batch_first", "bidirectional")
        split_gates = kwargs.get("split_gates", False)
        layer = cls(*[kwargs.get(name, getattr(other, name)) for name in names],
                    split_gates=split_gates)
        layer.qconfig = getattr(other, "qconfig", qconfig)
        suffixes = (("layer_fw", ""), ("layer_bw", "_reverse"))
        for name, suffix in suffixes[: 1 + other.bidirectional]:
            parameters = [getattr(other, f"{parameter}_l{layer_idx}{suffix}", None)
                          for parameter in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            setattr(layer, name, _LSTMSingleLayer.from_params(*parameters, split_gates=split_gates))
        return layer


class LSTM(Module):
    """An LSTM composed of linear layers, sums and products that can be quantized.

    Takes and returns the same as `nn.LSTM`, but ignores dropout between layers; ValueError if it is
    not a probability. The weights are in `layers[i].layer_fw.cell`.

    >>> y, (h, c) = torch.ao.nn.quantizable.LSTM(3, 2)(torch.zeros(5, 4, 3))
    >>> y.shape
    torch.Size([5, 4, 2])
    """

    _FLOAT_MODULE: Any = modules.LSTM

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        device: Any = None, dtype: Any = None, *, split_gates: bool = False,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional = float(dropout), bidirectional
        self.training = False
        _check_dropout(dropout, num_layers)
        self.layers = modules.ModuleList([
            _LSTMLayer(hidden_size if i else input_size, hidden_size, bias, False, bidirectional,
                       device, dtype, split_gates=split_gates) for i in range(num_layers)])

    def forward(self, x: Tensor, hidden: Any = None) -> tuple[Tensor, State]:
        """Return the hidden states of all steps, and the last states of each layer."""
        if self.batch_first:
            x = x.transpose(0, 1)
        h_layers, c_layers = [], []
        states = self._create_initial_states(x, hidden)
        for layer, state in zip(self.layers, states, strict=True):
            x, (h, c) = layer(x, state)
            h_layers.append(h)
            c_layers.append(c)
        # (layers, directions, batch, hidden) to (layers * directions, batch, hidden)
        h, c = (ops.stack(last_states) for last_states in (h_layers, c_layers))
        h, c = (t.reshape(-1, t.shape[-2], t.shape[-1]) for t in (h, c))
        return (x.transpose(0, 1) if self.batch_first else x), (h, c)

    def _create_initial_states(self, x: Tensor, hidden: Any) -> Any:
        """Return the initial states of each layer."""
        directions, batch = 1 + self.bidirectional, x.size(1)
        if hidden is None:
            zeros = ops.zeros(directions, batch, self.hidden_size, device=x.device).squeeze(0)
            if x.is_quantized:
                zeros = ops.quantize_per_tensor(zeros, 1.0, 0, x.dtype)
            return [(zeros, zeros)] * self.num_layers
        if not isinstance(hidden[0], Tensor):
            return hidden
        h, c = (t.reshape(self.num_layers, directions, batch, self.hidden_size) for t in hidden)
        return [(h[i].squeeze(0), c[i].squeeze(0)) for i in range(self.num_layers)]

    def _get_name(self) -> str:
        return "QuantizableLSTM"

    @classmethod
    def from_float(cls, other: Any, qconfig: Any = None, split_gates: bool = False) -> Any:
        """Convert an `nn.LSTM` with a `qconfig` and prepare it to be run on samples."""
        assert isinstance(other, cls._FLOAT_MODULE), \
            f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}"
        assert hasattr(other, "qconfig") or qconfig, \
            "other must have qconfig or qconfig must be provided"
        observed = cls(other.input_size, other.hidden_size, other.num_layers, other.bias,
                       other.batch_first, other.dropout, other.bidirectional,
                       split_gates=split_gates)
        observed.qconfig = getattr(other, "qconfig", qconfig)
        for i in range(other.num_layers):
            observed.layers[i] = _LSTMLayer.from_float(
                other, i, qconfig, batch_first=False, split_gates=split_gates)
        observed.train(other.training)
        return (Steps.prepare_qat if other.training else Steps.prepare)(observed, inplace=True)

    @classmethod
    def from_observed(cls, other: Any) -> Any:
        """Raise NotImplementedError: `nn.quantized.LSTM` converts observed modules."""
        raise NotImplementedError("It looks like you are trying to convert a non-quantizable LSTM "
                                  "module. Please, see the examples on quantizable LSTMs.")


def _check_dropout(dropout: Any, num_layers: int) -> None:
    if not isinstance(dropout, (int, float)) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
        raise ValueError("dropout should be a number in range [0, 1] representing the probability "
                         "of an element being zeroed")
    if dropout > 0:
        warn("dropout option for quantizable LSTM is ignored. If you are training, please, use "
             "nn.LSTM version followed by `prepare` step.")
        if num_layers == 1:
            warn("dropout option adds dropout after all but last recurrent layer, so non-zero "
                 f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                 f"num_layers={num_layers}")
