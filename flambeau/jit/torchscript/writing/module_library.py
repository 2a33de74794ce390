"""TorchScript code for the `forward` of torch.nn modules, with settings inlined as literals.

A writer takes a module and returns its method; the library maps classes to writers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import nn
from ....nn.module import Module
from .classes import Method, write_attribute_read, write_literal
from .transformer_library import TRANSFORMERS

__all__ = ["write_forward"]

Writer = Callable[[Any], Method]
_FUNCTIONAL = "__torch__.torch.nn.functional"


def _of(expression: str, parameters: str = "input: Tensor", *settings: str) -> Writer:
    """Return a writer of one expression; each {} becomes the value of an attribute."""

    def write(module: Any) -> Method:
        values = [write_literal(getattr(module, name)) for name in settings]
        return Method(parameters, f"return {expression.format(*values)}")

    return write


def _activation(name: str, *settings: str) -> Writer:
    """Return a writer of an activation, which calls `name`_ if the module is in place."""

    def write(module: Any) -> Method:
        ending = "_" if getattr(module, "inplace", False) else ""
        values = "".join(f", {write_literal(getattr(module, s))}" for s in settings)
        return Method("input: Tensor", f"return torch.{name}{ending}(input{values})")

    return write


def _repeat(value: Any, count: int) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value] * count


def _convolution(count: int, transposed: bool = False) -> Writer:
    def write(m: Any) -> Method:
        if m.padding_mode != "zeros":
            raise NotImplementedError(f"padding_mode {m.padding_mode!r} of {type(m).__name__}")
        padding = m.padding if isinstance(m.padding, str) else _repeat(m.padding, count)
        stride, dilation = _repeat(m.stride, count), _repeat(m.dilation, count)
        if transposed:
            output = _repeat(m.output_padding, count)
            return Method(
                "input: Tensor",
                f"return torch.conv_transpose{count}d(input, self.weight, "
                f"self.bias, {stride}, {padding}, {output}, {m.groups}, {dilation})")
        return Method(
            "input: Tensor",
            f"return torch.conv{count}d(input, self.weight, self.bias, {stride}, "
            f"{write_literal(padding)}, {dilation}, {m.groups})")

    return write


def _pool(kind: str, count: int) -> Writer:
    def write(m: Any) -> Method:
        kernel = _repeat(m.kernel_size, count)
        stride = _repeat(m.stride if m.stride is not None else m.kernel_size, count)
        settings = f"{kernel}, {stride}, {_repeat(m.padding, count)}"
        if kind == "max":
            if m.return_indices:
                raise NotImplementedError(f"return_indices of {type(m).__name__}")
            return Method(
                "input: Tensor",
                f"return torch.max_pool{count}d(input, {settings}, "
                f"{_repeat(m.dilation, count)}, {m.ceil_mode})")
        divisor = "" if count == 1 else f", {m.divisor_override}"
        return Method(
            "input: Tensor",
            f"return torch.avg_pool{count}d(input, {settings}, {m.ceil_mode}, "
            f"{m.count_include_pad}{divisor})")

    return write


def _adaptive(count: int) -> Writer:
    def write(m: Any) -> Method:
        sizes = _repeat(m.output_size, count)
        if None in sizes:
            raise NotImplementedError(f"an output size None of {type(m).__name__}")
        return Method("input: Tensor", f"return torch.adaptive_avg_pool{count}d(input, {sizes})")

    return write


def _batch_norm(m: Any) -> Method:
    running = "self.running_mean, self.running_var"
    training = "self.training" if m.running_mean is not None else "True"
    momentum = 0.0 if m.momentum is None else m.momentum
    if m.momentum is None and m.track_running_stats:
        raise NotImplementedError("momentum=None of batch norm")
    lines = []
    if m.num_batches_tracked is not None:
        lines += ["if self.training:",
                  "  counted = torch.add_(self.num_batches_tracked, 1)"]
    lines.append(f"return torch.batch_norm(input, self.weight, self.bias, {running}, {training}, "
                 f"{momentum}, {m.eps}, False)")
    return Method("input: Tensor", *lines)


def _write_initial_state(m: Any, is_lstm: bool, rank: int, batch_axis: int, sizes: str
                         ) -> list[str]:
    """Return the lines that set `batched`, the input with a batch axis, and `state`, the initial
    state: `hx`, or zeros of `sizes` with the batch's size for {}. `alone`: the input lacks the
    batch axis; it has `rank` axes then.
    """
    axis = rank - 1  # of the batch in the state
    zeros = sizes.format(f"torch.size(batched, {batch_axis})")
    state, batched_hx = "zeros", f"torch.unsqueeze(hx, {axis})"
    if is_lstm:
        state = "(zeros, zeros)"
        batched_hx = f"(torch.unsqueeze(hx[0], {axis}), torch.unsqueeze(hx[1], {axis}))"
    return [
        "batched = input", f"alone = torch.eq(torch.dim(input), {rank})",
        "if alone:", f"  batched = torch.unsqueeze(input, {batch_axis})",
        "if hx is None:",
        f"  zeros = torch.zeros([{zeros}], dtype=ops.prim.dtype(input), "
        "device=ops.prim.device(input))",
        f"  state = {state}", "else:", "  state = hx", "  if alone:", f"    state = {batched_hx}",
    ]


def _write_recurrent(m: Any) -> Method:
    """Write all steps of an RNN, GRU or LSTM."""
    if m.proj_size:
        raise NotImplementedError("proj_size of an LSTM")
    batch_axis = int(not m.batch_first)
    weights = ", ".join(f"self.{name}" for name in m._flat_weights_names)
    settings = (f"[{weights}], {m.bias}, {m.num_layers}, {float(m.dropout)}, self.training, "
                f"{m.bidirectional}, {m.batch_first}")
    states = m.num_layers * (2 if m.bidirectional else 1)
    sizes = f"{states}, {{}}, {m.hidden_size}"
    start = _write_initial_state(m, m.mode == "LSTM", 2, batch_axis, sizes)
    if m.mode == "LSTM":
        return Method(
            "input: Tensor, hx: Optional[Tuple[Tensor, Tensor]]=None", *start,
            f"y, h, c = torch.lstm(batched, [state[0], state[1]], {settings})", "if alone:",
            f"  return (torch.squeeze(y, {batch_axis}), "
            "(torch.squeeze(h, 1), torch.squeeze(c, 1)))",
            "return (y, (h, c))")
    return Method(
        "input: Tensor, hx: Optional[Tensor]=None", *start,
        f"y, h = torch.{m.mode.lower()}(batched, state, {settings})", "if alone:",
        f"  return (torch.squeeze(y, {batch_axis}), torch.squeeze(h, 1))", "return (y, h)")


def _write_cell(m: Any) -> Method:
    """Write one step of an RNN, GRU or LSTM."""
    is_lstm = isinstance(m, nn.LSTMCell)
    start = _write_initial_state(m, is_lstm, 1, 0, f"{{}}, {m.hidden_size}")
    biases = "self.bias_ih, self.bias_hh" if m.bias else "None, None"
    weights = f"self.weight_ih, self.weight_hh, {biases}"
    if is_lstm:
        return Method(
            "input: Tensor, hx: Optional[Tuple[Tensor, Tensor]]=None", *start,
            f"h, c = torch.lstm_cell(batched, [state[0], state[1]], {weights})", "if alone:",
            "  return (torch.squeeze(h, 0), torch.squeeze(c, 0))", "return (h, c)")
    name = "gru_cell" if isinstance(m, nn.GRUCell) else f"rnn_{m.nonlinearity}_cell"
    return Method(
        "input: Tensor, hx: Optional[Tensor]=None", *start,
        f"h = torch.{name}(batched, state, {weights})", "if alone:",
        "  return torch.squeeze(h, 0)", "return h")


def _loss(name: str, *settings: str) -> Writer:
    """Return a writer of a loss that calls its nn.functional function."""

    def write(m: Any) -> Method:
        extra = "".join(f", {s}=self.{s}" if s in ("weight", "pos_weight")
                        else f", {s}={write_literal(getattr(m, s))}" for s in settings)
        return Method(
            "input: Tensor, target: Tensor",
            f"return {_FUNCTIONAL}.{name}(input, target{extra}, "
            f"reduction={write_literal(m.reduction)})")

    return write


def _write_embedding(m: Any) -> Method:
    if m.max_norm is not None:
        raise NotImplementedError("max_norm of an Embedding")
    row = -1 if m.padding_idx is None else m.padding_idx
    return Method(
        "input: Tensor",
        f"return torch.embedding(self.weight, input, {row}, "
        f"{m.scale_grad_by_freq}, {m.sparse})")


def _write_layer_norm(m: Any) -> Method:
    return Method(
        "input: Tensor",
        f"return torch.layer_norm(input, {list(m.normalized_shape)}, "
        f"self.weight, self.bias, {m.eps}, False)")


_UPSAMPLED_AXES = {"linear": 1, "trilinear": 3}  # other modes: 2, for images


def _write_upsample(m: Any) -> Method:
    count = _UPSAMPLED_AXES.get(m.mode, 2)
    size = None if m.size is None else _repeat(m.size, count)
    factors = None if m.scale_factor is None else [float(v) for v in _repeat(m.scale_factor, count)]
    return Method(
        "input: Tensor",
        f"return {_FUNCTIONAL}.interpolate(input, {size}, {factors}, "
        f"{write_literal(m.mode)}, {m.align_corners})")


def _chain(children: Callable[[Any], list[str]]) -> Writer:
    """Return a writer that calls child modules in sequence."""

    def write(m: Any) -> Method:
        lines = [f"input = ({write_attribute_read('self', name)}).forward(input)"
                 for name in children(m)]
        return Method("input: Tensor", *lines, "return input")

    return write


_LIBRARY: dict[type, Writer] = {
    nn.Identity: _of("input"), nn.Linear: _of("torch.linear(input, self.weight, self.bias)"),
    nn.Bilinear: _of("torch.bilinear(input1, input2, self.weight, self.bias)",
                     "input1: Tensor, input2: Tensor"),
    **{getattr(nn, f"Conv{n}d"): _convolution(n) for n in (1, 2, 3)},
    **{getattr(nn, f"ConvTranspose{n}d"): _convolution(n, True) for n in (1, 2, 3)},
    **{getattr(nn, f"BatchNorm{n}d"): _batch_norm for n in (1, 2, 3)},
    **{getattr(nn, f"MaxPool{n}d"): _pool("max", n) for n in (1, 2, 3)},
    **{getattr(nn, f"AvgPool{n}d"): _pool("avg", n) for n in (1, 2, 3)},
    **{getattr(nn, f"AdaptiveAvgPool{n}d"): _adaptive(n) for n in (1, 2, 3)},
    nn.LayerNorm: _write_layer_norm, nn.Embedding: _write_embedding, nn.Upsample: _write_upsample,
    nn.GroupNorm: _of("torch.group_norm(input, {}, self.weight, self.bias, {}, False)",
                      "input: Tensor", "num_groups", "eps"),
    nn.RMSNorm: _of("torch.rms_norm(input, {}, self.weight, {})", "input: Tensor",
                    "normalized_shape", "eps"),
    nn.Dropout: _of("torch.dropout(input, {}, self.training)", "input: Tensor", "p"),
    nn.Dropout2d: _of("torch.feature_dropout(input, {}, self.training)", "input: Tensor", "p"),
    nn.AlphaDropout: _of("torch.alpha_dropout(input, {}, self.training)", "input: Tensor", "p"),
    **{getattr(nn, kind): _activation(name, *settings) for kind, name, *settings in (
        ("ReLU", "relu"), ("ReLU6", "relu6"), ("SiLU", "silu"), ("Mish", "mish"),
        ("Hardswish", "hardswish"), ("Hardsigmoid", "hardsigmoid"), ("SELU", "selu"),
        ("ELU", "elu", "alpha"), ("CELU", "celu", "alpha"),
        ("LeakyReLU", "leaky_relu", "negative_slope"), ("Threshold", "threshold", "threshold",
                                                        "value"),
        ("Hardtanh", "hardtanh", "min_val", "max_val"), ("Tanh", "tanh"), ("Sigmoid", "sigmoid"),
        ("LogSigmoid", "log_sigmoid"), ("Softplus", "softplus", "beta", "threshold"),
        ("Hardshrink", "hardshrink", "lambd"), ("Softshrink", "softshrink", "lambd"))},
    nn.GELU: _of("torch.gelu(input, approximate={})", "input: Tensor", "approximate"),
    nn.GLU: _of("torch.glu(input, {})", "input: Tensor", "dim"),
    nn.PReLU: _of("torch.prelu(input, self.weight)"),
    nn.Softmax: _of("torch.softmax(input, {})", "input: Tensor", "dim"),
    nn.LogSoftmax: _of("torch.log_softmax(input, {})", "input: Tensor", "dim"),
    nn.Flatten: _of("torch.flatten(input, {}, {})", "input: Tensor", "start_dim", "end_dim"),
    nn.PixelShuffle: _of("torch.pixel_shuffle(input, {})", "input: Tensor", "upscale_factor"),
    nn.LSTM: _write_recurrent, nn.GRU: _write_recurrent,
    nn.RNNCell: _write_cell, nn.GRUCell: _write_cell,
    nn.LSTMCell: _write_cell, **TRANSFORMERS,
    nn.Sequential: _chain(lambda m: list(m._modules)),
    nn.MSELoss: _loss("mse_loss"), nn.L1Loss: _loss("l1_loss"),
    nn.SmoothL1Loss: _loss("smooth_l1_loss", "beta"), nn.HuberLoss: _loss("huber_loss", "delta"),
    nn.CrossEntropyLoss: _loss("cross_entropy", "weight", "ignore_index", "label_smoothing"),
    nn.NLLLoss: _loss("nll_loss", "weight", "ignore_index"), nn.BCELoss: _loss(
        "binary_cross_entropy", "weight"),
    nn.BCEWithLogitsLoss: _loss("binary_cross_entropy_with_logits", "weight", "pos_weight"),
    nn.KLDivLoss: _loss("kl_div", "log_target"),
}


def write_forward(module: Module, class_name: str) -> str | None:
    """Return the text of a module's `forward`, or None if no class in this library defines it.

    A subclass that inherits `forward` counts as its base. Raises NotImplementedError for an
    unsupported setting.
    """
    write = next((_LIBRARY[kind] for kind in type(module).__mro__ if kind in _LIBRARY
                  and kind.forward is type(module).forward), None)  # type: ignore[attr-defined]
    return None if write is None else write(module).text("forward", class_name)
