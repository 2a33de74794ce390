"""Quantized LSTM and multi-head attention, converted from observed modules of `ao.nn.quantizable`.
"""

from __future__ import annotations

from typing import Any

from ..... import ops
from .....ops.quantized.conversion import _choose_qparams_per_tensor
from .....tensor.dtypes import quint8
from ... import quantizable
from ...quantizable.steps import Steps


class LSTM(quantizable.LSTM):
    """A quantized LSTM; `convert` creates it from an observed `torch.ao.nn.quantizable.LSTM`."""

    _FLOAT_MODULE = quantizable.LSTM

    def _get_name(self) -> str:
        return "QuantizedLSTM"

    @classmethod
    def from_float(cls, *args: Any, **kwargs: Any) -> Any:
        """Raise NotImplementedError: only observed modules can be converted."""
        raise NotImplementedError("It looks like you are trying to convert a non-observed LSTM "
                                  "module. Please, see the examples on quantizable LSTMs.")

    @classmethod
    def from_observed(cls, other: Any) -> LSTM:
        """Return a copy of the observed LSTM with its parts quantized."""
        return _convert(cls, other)


class MultiheadAttention(quantizable.MultiheadAttention):
    """Quantized attention; `convert` creates it from an observed `torch.ao.nn.quantizable` one."""

    _FLOAT_MODULE = quantizable.MultiheadAttention

    def _get_name(self) -> str:
        return "QuantizedMultiheadAttention"

    @classmethod
    def from_float(cls, other: Any) -> Any:
        """Raise NotImplementedError: only observed modules can be converted."""
        raise NotImplementedError("It looks like you are trying to convert a non-observed MHA "
                                  "module. Please, see the examples on quantizable MHAs.")

    @classmethod
    def from_observed(cls, other: Any) -> MultiheadAttention:
        """Return a copy of the observed attention with its parts quantized."""
        result = _convert(cls, other)
        parameters = None
        for name in ("bias_k", "bias_v"):
            bias = result._parameters.pop(name, None)
            if bias is None:
                setattr(result, name, None)
                continue
            if parameters is None:  # both with the first one's scale, as in PyTorch
                parameters = _choose_qparams_per_tensor(bias.detach())
            setattr(result, name, ops.quantize_per_tensor(bias.detach(), *parameters, quint8))
        del result.in_proj_weight, result.in_proj_bias
        return result


def _convert(cls: Any, other: Any) -> Any:
    assert isinstance(other, cls._FLOAT_MODULE), \
        f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}"
    result = Steps.convert(other, inplace=False, remove_qconfig=True)
    result.__class__ = cls
    return result
