"""RNNBase: parameters, checks, and conversion of inputs and outputs of recurrent layers.

weight_ih is (gates * hidden, input), weight_hh (gates * hidden, hidden or proj_size), with LSTM's
gates in the order i f g o and GRU's r z n. All are initialized uniformly within
+-1/sqrt(hidden_size).
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

from ... import ops
from ...native.foundation.user_frames import warn
from ...tensor import Tensor
from .. import init
from ..module import Module
from ..parameter import Parameter
from ..utils.rnn import PackedSequence

__all__ = ["RNNBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _map_state(state: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Apply `change` to a hidden state, or to both h and c of an LSTM's state."""
    return tuple(map(change, state)) if isinstance(state, tuple | list) else change(state)


def reset_uniform(module: Any) -> None:
    bound = 1.0 / math.sqrt(module.hidden_size) if module.hidden_size > 0 else 0
    for weight in module.parameters():
        init.uniform_(weight, -bound, bound)


class RNNBase(Module):
    """Base class of RNN, LSTM and GRU: parameters, checks and input and output handling.

    >>> layer = nn.RNNBase("LSTM", 4, 8, bidirectional=True)
    >>> [name for name, _ in layer.named_parameters()][:5]
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0', 'weight_ih_l0_reverse']
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        _check_dropout(dropout, num_layers)
        _check_settings(self)
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse") if bidirectional else ("",):
                self._flambeau_register_layer(layer, suffix, device, dtype)
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self.reset_parameters()

    def _flambeau_register_layer(self, layer: int, suffix: str, device: Any, dtype: Any) -> None:
        """Register the parameters of one direction of one layer."""
        width = _GATES[self.mode] * self.hidden_size
        hidden = self.proj_size or self.hidden_size
        directions = 2 if self.bidirectional else 1
        incoming = self.input_size if layer == 0 else hidden * directions
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (width, incoming), "weight_hh": (width, hidden),
        }
        if self.bias:
            shapes |= {"bias_ih": (width,), "bias_hh": (width,)}
        if self.proj_size > 0:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        names = []
        for parameter_name, shape in shapes.items():
            names.append(f"{parameter_name}_l{layer}{suffix}")
            setattr(self, names[-1], Parameter(ops.empty(shape, device=device, dtype=dtype)))
        self._all_weights.append(names)

    @property
    def _flat_weights(self) -> list[Tensor | None]:
        """The weights in the order the operators take them.

        Looked up on each call, so that replaced or parametrized weights are used.
        """
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Tensor]) -> None:
        for name, weight in zip(self._flat_weights_names, weights, strict=True):
            if getattr(self, name, None) is not weight:
                setattr(self, name, weight)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Do nothing; without cuDNN, weights need no particular memory layout."""

    def reset_parameters(self) -> None:
        """Reinitialize all parameters."""
        reset_uniform(self)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise ValueError for a dtype, RuntimeError for a shape, that does not fit the weights."""
        weight_dtype = getattr(self, self._flat_weights_names[0]).dtype
        if input.dtype != weight_dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight_dtype}). "
                f"Convert input: input.to({weight_dtype}), "
                f"or convert model: model.to({input.dtype})"
            )
        expected = 3 if batch_sizes is None else 2
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {input.size(-1)}"
            )

    def _flambeau_state_shape(self, input: Tensor, batch_sizes: Tensor | None, width: int) -> tuple:
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0 if self.batch_first else 1)
        return (self.num_layers * (2 if self.bidirectional else 1), batch, width)

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """Return (num_layers directions, batch, proj_size or hidden_size)."""
        return self._flambeau_state_shape(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raise RuntimeError if `hx` has a different shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise if the input or the hidden state does not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return the hidden state with its batch reordered."""
        if permutation is None:
            return hx
        return _map_state(hx, lambda state: state.index_select(1, permutation))

    def _flambeau_zero_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        shape = self.get_expected_hidden_size(input, batch_sizes)
        return ops.zeros(shape, dtype=input.dtype, device=input.device)

    def _flambeau_check_state_dim(self, hx: Any, dim: int, batching: str) -> None:
        if hx.dim() != dim:
            raise RuntimeError(
                f"For {batching} input, hx should also be {dim}-D but got {hx.dim()}-D tensor"
            )

    def _flambeau_run(self, *arguments: Any) -> tuple[Tensor, Any]:
        """Call the operator; return the output, and the state in the user's format."""
        raise NotImplementedError(f"{type(self).__name__}._flambeau_run")

    def _flambeau_options(self) -> tuple:
        return (
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
        )

    def _flambeau_forward(self, input: Any, hx: Any) -> tuple[Any, Any]:
        if isinstance(input, PackedSequence):
            return self._flambeau_forward_packed(input, hx)
        if input.dim() not in (2, 3):
            layer = self.mode.partition("_")[0]
            noun = " tensor" if layer == "RNN" else ""
            raise ValueError(
                f"{layer}: Expected input to be 2D or 3D, got {input.dim()}D{noun} instead"
            )
        if input.dim() == 3:
            return self._flambeau_forward_batched(input, hx)
        batch_dim = 0 if self.batch_first else 1
        if hx is not None:
            self._flambeau_check_state_dim(hx, 2, "unbatched 2-D")
            hx = _map_state(hx, lambda state: state.unsqueeze(1))
        output, hidden = self._flambeau_forward_batched(input.unsqueeze(batch_dim), hx)
        return output.squeeze(batch_dim), _map_state(hidden, lambda state: state.squeeze(1))

    def _flambeau_forward_batched(self, input: Tensor, hx: Any) -> tuple[Tensor, Any]:
        if hx is None:
            hx = self._flambeau_zero_state(input, None)
        else:
            self._flambeau_check_state_dim(hx, 3, "batched 3-D")
        self.check_forward_args(input, hx, None)
        return self._flambeau_run(input, hx, *self._flambeau_options(), self.batch_first)

    def _flambeau_forward_packed(
        self, packed: PackedSequence, hx: Any
    ) -> tuple[PackedSequence, Any]:
        data, batch_sizes, sorted_indices, unsorted_indices = packed
        if hx is None:
            hx = self._flambeau_zero_state(data, batch_sizes)
        else:
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(data, hx, batch_sizes)
        output, hidden = self._flambeau_run(data, batch_sizes, hx, *self._flambeau_options())
        packed = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
        return packed, self.permute_hidden(hidden, unsorted_indices)

    def extra_repr(self) -> str:
        settings = [f"{self.input_size}, {self.hidden_size}"]
        usual = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        for name, value in usual.items():
            if getattr(self, name) != value:
                settings.append(f"{name}={getattr(self, name)}")
        return ", ".join(settings)

    def __getstate__(self) -> dict:
        # PyTorch keeps this list in its modules, and expects it when unpickling.
        return {**super().__getstate__(), "_flat_weights": self._flat_weights}

    def __setstate__(self, state: dict) -> None:
        state = {name: value for name, value in state.items() if name != "_flat_weights"}
        super().__setstate__(state)
        self.__dict__.setdefault("proj_size", 0)  # old pickles lack it


def _check_dropout(dropout: float, num_layers: int) -> None:
    if (
        not isinstance(dropout, numbers.Number)
        or isinstance(dropout, bool)
        or not 0 <= dropout <= 1
    ):
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an "
            "element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero "
            f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={num_layers}",
        )


def _check_settings(layer: RNNBase) -> None:
    expected_types: dict[str, Any] = {
        "bias": bool, "batch_first": bool, "input_size": int, "hidden_size": int,
    }
    for name, expected in expected_types.items():
        value: Any = getattr(layer, name)
        if not isinstance(value, expected):
            actual = type(value).__name__
            raise TypeError(f"{name} should be of type {expected.__name__}, got: {actual}")
        if expected is int and value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if layer.num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if layer.proj_size < 0:
        raise ValueError(
            "proj_size should be a positive integer or zero to disable projections"
        )
    if layer.proj_size >= layer.hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")
    if layer.mode not in _GATES:
        raise ValueError(f"Unrecognized RNN mode: {layer.mode}")
