"""Recurrent layers (RNN, LSTM, GRU) over padded or packed sequences, and their single cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import ops
from ...native.foundation.user_frames import warn
from ...tensor import Tensor
from ..module import Module
from ..parameter import Parameter
from .rnnbase import RNNBase, reset_uniform

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Deprecated: use `tensor.index_select(dim, permutation)`."""
    warn(
        "`apply_permutation` is deprecated, "
        "please use `tensor.index_select(dim, permutation)` instead",
        FutureWarning,
    )
    return tensor.index_select(dim, permutation)


_NO_PROJECTION = "proj_size argument is only supported for LSTM, not RNN or GRU"


class RNN(RNNBase):
    """Elman RNN, h_t = tanh(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh), of `num_layers` layers.

    RNN(input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False,
    dropout=0.0, bidirectional=False). `nonlinearity` "relu" replaces tanh. Input (l, n,
    input_size), with `batch_first` (n, l, ...), unbatched (l, ...), or a PackedSequence. Return the
    output (l, n, directions hidden_size) and the last hidden state (num_layers directions, n,
    hidden_size), which is also the shape of hx. Raises ValueError for `proj_size` or another
    nonlinearity. Elman, 1990.

    >>> output, h = nn.RNN(4, 8, num_layers=2, batch_first=True)(torch.zeros(2, 5, 4))
    >>> output.shape, h.shape
    (torch.Size([2, 5, 8]), torch.Size([2, 2, 8]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError(_NO_PROJECTION)
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity

    def _flambeau_run(self, *arguments: Any) -> tuple[Tensor, Tensor]:
        operator = ops.rnn_tanh if self.mode == "RNN_TANH" else ops.rnn_relu
        return operator(*arguments)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        return self._flambeau_forward(input, hx)


class LSTM(RNNBase):
    """Long short-term memory: c_t = f c_(t-1) + i g, h_t = o tanh(c_t), in `num_layers` layers.

    LSTM(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
    bidirectional=False, proj_size=0). Shapes as in RNN; the state is a pair (h, c), with h of
    width proj_size if that is given. Hochreiter and Schmidhuber, 1997.

    >>> nn.LSTM(10, 20, 2)
    LSTM(10, 20, num_layers=2)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """Return (num_layers directions, batch, hidden_size)."""
        return self._flambeau_state_shape(input, batch_sizes, self.hidden_size)

    def check_forward_args(
        self, input: Tensor, hidden: tuple[Tensor, Tensor], batch_sizes: Tensor | None
    ) -> None:
        """Raise if the input, h or c does not fit."""
        self.check_input(input, batch_sizes)
        sizes = (
            self.get_expected_hidden_size(input, batch_sizes),
            self.get_expected_cell_size(input, batch_sizes),
        )
        for i, size in enumerate(sizes):
            self.check_hidden_size(hidden[i], size, f"Expected hidden[{i}] size {{}}, got {{}}")

    def _flambeau_check_state_dim(self, hx: Any, dim: int, batching: str) -> None:
        if hx[0].dim() != dim or hx[1].dim() != dim:
            raise RuntimeError(
                f"For {batching} input, hx and cx should also be {dim}-D "
                f"but got ({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )

    def _flambeau_zero_state(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        cell = self.get_expected_cell_size(input, batch_sizes)
        zeros = ops.zeros(cell, dtype=input.dtype, device=input.device)
        return super()._flambeau_zero_state(input, batch_sizes), zeros

    def _flambeau_run(self, *arguments: Any) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        output, h, c = ops.lstm(*arguments)
        return output, (h, c)

    def forward(
        self, input: Any, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        return self._flambeau_forward(input, hx)


class GRU(RNNBase):
    """Gated recurrent unit: h_t = (1 - z) n + z h_(t-1), in `num_layers` layers.

    GRU(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
    bidirectional=False). Shapes as in RNN. The reset gate multiplies W_hn h + b_hn, as in cuDNN,
    not h. Raises ValueError for `proj_size`. Cho et al., 2014.

    >>> output, h = nn.GRU(4, 8, batch_first=True)(torch.zeros(2, 5, 4))
    >>> output.shape, h.shape
    (torch.Size([2, 5, 8]), torch.Size([1, 2, 8]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError(_NO_PROJECTION)
        super().__init__("GRU", *args, **kwargs)

    def _flambeau_run(self, *arguments: Any) -> tuple[Tensor, Tensor]:
        return ops.gru(*arguments)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        return self._flambeau_forward(input, hx)


class RNNCellBase(Module):
    """Base class of cells: parameters and checks for `num_chunks` gates.

    >>> cell = nn.RNNCellBase(4, 8, bias=True, num_chunks=3)
    >>> {name: tuple(p.shape) for name, p in cell.named_parameters()}
    {'weight_ih': (24, 4), 'weight_hh': (24, 8), 'bias_ih': (24,), 'bias_hh': (24,)}
    """

    weight_ih: Tensor
    weight_hh: Tensor

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        width = num_chunks * hidden_size
        kind = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(ops.empty((width, input_size), **kind))
        self.weight_hh = Parameter(ops.empty((width, hidden_size), **kind))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(ops.empty(width, **kind)) if bias else None)
        self.reset_parameters()

    def extra_repr(self) -> str:
        settings = [f"{self.input_size}, {self.hidden_size}"]
        if self.__dict__.get("bias", True) is not True:
            settings.append(f"bias={self.bias}")
        if self.__dict__.get("nonlinearity", "tanh") != "tanh":
            settings.append(f"nonlinearity={self.nonlinearity}")
        return ", ".join(settings)

    def reset_parameters(self) -> None:
        """Reinitialize all parameters."""
        reset_uniform(self)

    def _flambeau_weights(self) -> tuple:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _flambeau_require_dim(self, label: str, value: Tensor) -> None:
        if value.dim() not in (1, 2):
            raise ValueError(
                f"{type(self).__name__}: Expected {label} to be 1D or 2D, "
                f"got {value.dim()}D instead"
            )

    def _flambeau_step(self, operator: Callable[..., Any], input: Tensor, hx: Any) -> Any:
        """Run one step of a cell whose state is h; input is (n, input_size) or (input_size)."""
        self._flambeau_require_dim("input", input)
        if hx is not None:
            self._flambeau_require_dim("hidden", hx)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
            hx = None if hx is None else hx.unsqueeze(0)
        if hx is None:
            hx = self._flambeau_zeros(input)
        result = operator(input, hx, *self._flambeau_weights())
        return result if batched else result.squeeze(0)

    def _flambeau_zeros(self, input: Tensor) -> Tensor:
        shape = (input.size(0), self.hidden_size)
        return ops.zeros(shape, dtype=input.dtype, device=input.device)


class RNNCell(RNNCellBase):
    """One RNN step: input (n, input_size), hx and result (n, hidden_size), n optional.

    >>> cell, h = nn.RNNCell(4, 8), torch.zeros(2, 8)
    >>> for x in torch.zeros(5, 2, 4):
    ...     h = cell(x, h)
    >>> h.shape
    torch.Size([2, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity == "tanh":
            return self._flambeau_step(ops.rnn_tanh_cell, input, hx)
        if self.nonlinearity == "relu":
            return self._flambeau_step(ops.rnn_relu_cell, input, hx)
        raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")


class LSTMCell(RNNCellBase):
    """One LSTM step: input (n, input_size), hx and result a pair (h, c), n optional.

    >>> cell, state = nn.LSTMCell(4, 8), (torch.zeros(2, 8), torch.zeros(2, 8))
    >>> for x in torch.zeros(5, 2, 4):
    ...     state = cell(x, state)
    >>> state[0].shape
    torch.Size([2, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device=device, dtype=dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        self._flambeau_require_dim("input", input)
        for i, state in enumerate(hx or ()):
            self._flambeau_require_dim(f"hx[{i}]", state)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
            hx = None if hx is None else (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        if hx is None:
            hx = (self._flambeau_zeros(input),) * 2
        h, c = ops.lstm_cell(input, hx, *self._flambeau_weights())
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """One GRU step: input (n, input_size), hx and result (n, hidden_size), n optional.

    >>> cell, h = nn.GRUCell(4, 8), torch.zeros(2, 8)
    >>> for x in torch.zeros(5, 2, 4):
    ...     h = cell(x, h)
    >>> h.shape
    torch.Size([2, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._flambeau_step(ops.gru_cell, input, hx)
