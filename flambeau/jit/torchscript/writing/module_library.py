"""TorchScript code for the `forward` of torch.nn modules, with settings inlined as literals.

Writers return "parameters|line|line|...". `forward_of` splits this into a method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import nn
from ....nn.module import Module
from .classes import attribute_read, literal
from .transformer_library import TRANSFORMERS

__all__ = ["forward_of"]

Text = Callable[[Any], str]
_FUNCTIONAL = "__torch__.torch.nn.functional"


def _of(expression: str, parameters: str = "input: Tensor", *settings: str) -> Text:
    """Return a writer of one expression; each {} becomes the value of an attribute."""

    def text(module: Any) -> str:
        values = [literal(getattr(module, name)) for name in settings]
        return f"{parameters}|return {expression.format(*values)}"

    return text


def _activation(name: str, *settings: str) -> Text:
    """Return a writer of an activation, which calls `name`_ if the module is in place."""

    def text(module: Any) -> str:
        ending = "_" if getattr(module, "inplace", False) else ""
        values = "".join(f", {literal(getattr(module, s))}" for s in settings)
        return f"input: Tensor|return torch.{name}{ending}(input{values})"

    return text


def _repeat(value: Any, count: int) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value] * count


def _convolution(count: int, transposed: bool = False) -> Text:
    def text(m: Any) -> str:
        if m.padding_mode != "zeros":
            raise NotImplementedError(f"padding_mode {m.padding_mode!r} of {type(m).__name__}")
        padding = m.padding if isinstance(m.padding, str) else _repeat(m.padding, count)
        stride, dilation = _repeat(m.stride, count), _repeat(m.dilation, count)
        if transposed:
            output = _repeat(m.output_padding, count)
            return (f"input: Tensor|return torch.conv_transpose{count}d(input, self.weight, "
                    f"self.bias, {stride}, {padding}, {output}, {m.groups}, {dilation})")
        return (f"input: Tensor|return torch.conv{count}d(input, self.weight, self.bias, {stride}, "
                f"{literal(padding)}, {dilation}, {m.groups})")

    return text


def _pool(kind: str, count: int) -> Text:
    def text(m: Any) -> str:
        kernel = _repeat(m.kernel_size, count)
        stride = _repeat(m.stride if m.stride is not None else m.kernel_size, count)
        settings = f"{kernel}, {stride}, {_repeat(m.padding, count)}"
        if kind == "max":
            if m.return_indices:
                raise NotImplementedError(f"return_indices of {type(m).__name__}")
            return (f"input: Tensor|return torch.max_pool{count}d(input, {settings}, "
                    f"{_repeat(m.dilation, count)}, {m.ceil_mode})")
        divisor = "" if count == 1 else f", {m.divisor_override}"
        return (f"input: Tensor|return torch.avg_pool{count}d(input, {settings}, {m.ceil_mode}, "
                f"{m.count_include_pad}{divisor})")

    return text


def _adaptive(count: int) -> Text:
    def text(m: Any) -> str:
        sizes = _repeat(m.output_size, count)
        if None in sizes:
            raise NotImplementedError(f"an output size None of {type(m).__name__}")
        return f"input: Tensor|return torch.adaptive_avg_pool{count}d(input, {sizes})"

    return text


def _batch_norm(m: Any) -> str:
    running = "self.running_mean, self.running_var"
    training = "self.training" if m.running_mean is not None else "True"
    momentum = 0.0 if m.momentum is None else m.momentum
    if m.momentum is None and m.track_running_stats:
        raise NotImplementedError("momentum=None of batch norm")
    lines = ["input: Tensor"]
    if m.num_batches_tracked is not None:
        lines += ["if self.training:",
                  "  counted = torch.add_(self.num_batches_tracked, 1)"]
    lines.append(f"return torch.batch_norm(input, self.weight, self.bias, {running}, {training}, "
                 f"{momentum}, {m.eps}, False)")
    return "|".join(lines)


def _recurrent(m: Any) -> str:
    if m.proj_size:
        raise NotImplementedError("proj_size of an LSTM")
    lstm = m.mode == "LSTM"
    kind = "Tuple[Tensor, Tensor]" if lstm else "Tensor"
    shape = f"{m.num_layers * (2 if m.bidirectional else 1)}"
    start = ("(zeros, zeros)", "[state[0], state[1]]") if lstm else ("zeros", "state")
    weights = ", ".join(f"self.{name}" for name in m._flat_weights_names)
    settings = (f"[{weights}], {m.bias}, {m.num_layers}, {float(m.dropout)}, self.training, "
                f"{m.bidirectional}, {m.batch_first}")
    name = m.mode.lower()
    call = f"torch.{name}(batched, {start[1]}, {settings})"
    lines = [
        f"input: Tensor, hx: Optional[{kind}]=None", "batched = input",
        "alone = torch.eq(torch.dim(input), 2)",
        "if alone:", f"  batched = torch.unsqueeze(input, {int(not m.batch_first)})",
        "if hx is None:",
        f"  size = torch.size(batched, {int(not m.batch_first)})",
        f"  zeros = torch.zeros([{shape}, size, {m.hidden_size}], dtype=ops.prim.dtype(input), "
        "device=ops.prim.device(input))", f"  state = {start[0]}", "else:",
    ]
    axis = int(not m.batch_first)
    if lstm:
        lines += ["  state = hx", "  if alone:",
                  "    state = (torch.unsqueeze(hx[0], 1), torch.unsqueeze(hx[1], 1))",
                  f"y, h, c = {call}", "if alone:",
                  f"  return (torch.squeeze(y, {axis}), (torch.squeeze(h, 1), "
                  "torch.squeeze(c, 1)))",
                  "return (y, (h, c))"]
    else:
        lines += ["  state = hx", "  if alone:", "    state = torch.unsqueeze(hx, 1)",
                  f"y, h = {call}", "if alone:",
                  f"  return (torch.squeeze(y, {axis}), torch.squeeze(h, 1))", "return (y, h)"]
    return "|".join(lines)


def _cell(m: Any) -> str:
    """Write one step of an RNN, GRU or LSTM."""
    lstm = isinstance(m, nn.LSTMCell)
    name = "lstm_cell" if lstm else "gru_cell" if isinstance(m, nn.GRUCell) \
        else f"rnn_{m.nonlinearity}_cell"
    biases = "self.bias_ih, self.bias_hh" if m.bias else "None, None"
    state = "[state[0], state[1]]" if lstm else "state"
    lines = [
        f"input: Tensor, hx: Optional[{'Tuple[Tensor, Tensor]' if lstm else 'Tensor'}]=None",
        "batched = input", "alone = torch.eq(torch.dim(input), 1)",
        "if alone:", "  batched = torch.unsqueeze(input, 0)", "if hx is None:",
        f"  zeros = torch.zeros([torch.size(batched, 0), {m.hidden_size}], "
        "dtype=ops.prim.dtype(input), device=ops.prim.device(input))",
        f"  state = {'(zeros, zeros)' if lstm else 'zeros'}", "else:", "  state = hx",
        "  if alone:", "    state = " + (
            "(torch.unsqueeze(hx[0], 0), torch.unsqueeze(hx[1], 0))" if lstm
            else "torch.unsqueeze(hx, 0)"),
        f"{'h, c' if lstm else 'h'} = torch.{name}(batched, {state}, self.weight_ih, "
        f"self.weight_hh, {biases})", "if alone:",
        "  return " + ("(torch.squeeze(h, 0), torch.squeeze(c, 0))" if lstm
                       else "torch.squeeze(h, 0)"),
        "return " + ("(h, c)" if lstm else "h"),
    ]
    return "|".join(lines)


def _loss(name: str, *settings: str) -> Text:
    """Return a writer of a loss that calls its nn.functional function."""

    def text(m: Any) -> str:
        extra = "".join(f", {s}=self.{s}" if s in ("weight", "pos_weight")
                        else f", {s}={literal(getattr(m, s))}" for s in settings)
        return (f"input: Tensor, target: Tensor|return {_FUNCTIONAL}.{name}(input, target{extra}, "
                f"reduction={literal(m.reduction)})")

    return text


def _embedding(m: Any) -> str:
    if m.max_norm is not None:
        raise NotImplementedError("max_norm of an Embedding")
    row = -1 if m.padding_idx is None else m.padding_idx
    return (f"input: Tensor|return torch.embedding(self.weight, input, {row}, "
            f"{m.scale_grad_by_freq}, {m.sparse})")


def _layer_norm(m: Any) -> str:
    return (f"input: Tensor|return torch.layer_norm(input, {list(m.normalized_shape)}, "
            f"self.weight, self.bias, {m.eps}, False)")


_UPSAMPLED_AXES = {"linear": 1, "trilinear": 3}  # other modes: 2, for images


def _upsample(m: Any) -> str:
    count = _UPSAMPLED_AXES.get(m.mode, 2)
    size = None if m.size is None else _repeat(m.size, count)
    factors = None if m.scale_factor is None else [float(v) for v in _repeat(m.scale_factor, count)]
    return (f"input: Tensor|return {_FUNCTIONAL}.interpolate(input, {size}, {factors}, "
            f"{literal(m.mode)}, {m.align_corners})")


def _chain(children: Callable[[Any], list[str]]) -> Text:
    """Return a writer that calls child modules in sequence."""

    def text(m: Any) -> str:
        lines = [f"input = ({attribute_read('self', name)}).forward(input)" for name in children(m)]
        return "|".join(["input: Tensor", *lines, "return input"])

    return text


_LIBRARY: dict[type, Text] = {
    nn.Identity: _of("input"), nn.Linear: _of("torch.linear(input, self.weight, self.bias)"),
    nn.Bilinear: _of("torch.bilinear(input1, input2, self.weight, self.bias)",
                     "input1: Tensor, input2: Tensor"),
    **{getattr(nn, f"Conv{n}d"): _convolution(n) for n in (1, 2, 3)},
    **{getattr(nn, f"ConvTranspose{n}d"): _convolution(n, True) for n in (1, 2, 3)},
    **{getattr(nn, f"BatchNorm{n}d"): _batch_norm for n in (1, 2, 3)},
    **{getattr(nn, f"MaxPool{n}d"): _pool("max", n) for n in (1, 2, 3)},
    **{getattr(nn, f"AvgPool{n}d"): _pool("avg", n) for n in (1, 2, 3)},
    **{getattr(nn, f"AdaptiveAvgPool{n}d"): _adaptive(n) for n in (1, 2, 3)},
    nn.LayerNorm: _layer_norm, nn.Embedding: _embedding, nn.Upsample: _upsample,
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
    nn.LSTM: _recurrent, nn.GRU: _recurrent, nn.RNNCell: _cell, nn.GRUCell: _cell,
    nn.LSTMCell: _cell, **TRANSFORMERS,
    nn.Sequential: _chain(lambda m: list(m._modules)),
    nn.MSELoss: _loss("mse_loss"), nn.L1Loss: _loss("l1_loss"),
    nn.SmoothL1Loss: _loss("smooth_l1_loss", "beta"), nn.HuberLoss: _loss("huber_loss", "delta"),
    nn.CrossEntropyLoss: _loss("cross_entropy", "weight", "ignore_index", "label_smoothing"),
    nn.NLLLoss: _loss("nll_loss", "weight", "ignore_index"), nn.BCELoss: _loss(
        "binary_cross_entropy", "weight"),
    nn.BCEWithLogitsLoss: _loss("binary_cross_entropy_with_logits", "weight", "pos_weight"),
    nn.KLDivLoss: _loss("kl_div", "log_target"),
}


def forward_of(module: Module, class_name: str) -> str | None:
    """Return the text of a module's `forward`, or None if no class in this library defines it.

    A subclass that inherits `forward` counts as its base. Raises NotImplementedError for an
    unsupported setting.
    """
    text = next((_LIBRARY[kind] for kind in type(module).__mro__ if kind in _LIBRARY
                 and kind.forward is type(module).forward), None)  # type: ignore[attr-defined]
    if text is None:
        return None
    parameters, *lines = text(module).split("|")
    body = "".join(f"    {line}\n" for line in lines)
    return f"  def forward(self: {class_name}, {parameters}):\n{body}"
