"""Quantized modules in TorchScript. Archives store plain weights and pack them on load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ....ao.nn import quantized
from ....ao.nn.intrinsic import quantized as fused
from ....ao.nn.quantized import dynamic
from ....export.aten_functions import number_of_dtype
from ....nn.module import Module
from ....nn.modules import Identity
from ....tensor.dtypes import float16
from .classes import Method, write_literal

__all__ = ["find_packed_weights", "is_known", "write_methods"]

Methods = dict[str, Method]  # by name


def write_methods(module: Module, class_name: str) -> dict[str, str] | None:
    """Return the text of each method, or None unless the class is a flambeau quantized one."""
    write = _LIBRARY.get(_find_original(module))
    if write is None:
        return None
    methods = write(module)
    packed = find_packed_weights(module)
    if packed is not None:
        methods |= _write_packing(module)
    return {name: method.text(name, class_name, _RESULTS.get(name, ""))
            for name, method in methods.items()}


def is_known(module: Module) -> bool:
    """Return whether the class is a quantized one, other than FloatFunctional."""
    kind = _find_original(module)
    return kind in _LIBRARY and kind is not quantized.FloatFunctional


def find_packed_weights(module: Module) -> tuple[str, tuple[Any, ...]] | None:
    """Return (class, state) of a module's packed weights, or None if it has none."""
    kind = _find_original(module)
    if issubclass(kind, quantized.Linear):
        half = module._packed_params.dtype is float16
        name = "LinearPackedParamsBase"
        weight, bias = module._weight_bias()
        return name, (weight.float() if half else weight, bias, module.training)
    if issubclass(kind, (quantized.Conv1d, quantized.Conv2d, quantized.Conv3d)):
        return f"Conv{max(_rank(module), 2)}dPackedParamsBase", (
            *module._weight_bias(), module.training)
    return None


def _find_original(module: Module) -> type:
    """Return the original class of a scripted module."""
    return next(kind for kind in type(module).__mro__
                if ".jit." not in f".{kind.__module__}." and "original_name" not in vars(kind))


_RESULTS = {"__setstate__": "NoneType", "__getstate__": "Tuple[Tensor, Optional[Tensor], bool]"}


def _write_packing(m: Any) -> Methods:
    """Return the methods that pack weights on load and unpack them on save."""
    if issubclass(_find_original(m), quantized.Linear):
        half = "_fp16" if m._packed_params.dtype is float16 else ""
        unpack, pack = f"linear_unpack{half}", f"linear_prepack{half}(state[0], state[1])"
    else:
        name = f"conv{_rank(m)}d"
        settings = ", ".join(str(list(v)) for v in (m.stride, m.padding, m.dilation))
        unpack, pack = f"{name}_unpack", f"{name}_prepack(state[0], state[1], {settings}, " \
            f"{m.groups})"
    return {
        "__getstate__": Method(
            "", f"weight, bias = ops.quantized.{unpack}(self._packed_params)",
            "return (weight, bias, self.training)"),
        "__setstate__": Method(
            "state: Tuple[Tensor, Optional[Tensor], bool]",
            f"self._packed_params = ops.quantized.{pack}", "self.training = state[2]",
            "return None"),
    }


def _rank(m: Any) -> int:
    return len(m.kernel_size)


def _parameters(m: Any) -> str:
    """Return a module's output scale and zero point as text."""
    return f"{float(m.scale)!r}, {int(m.zero_point)}"


def _forward(call: str, parameters: str = "input: Tensor") -> Methods:
    return {"forward": Method(parameters, f"return {call}")}


def _write_linear(name: str) -> Callable[[Any], Methods]:
    return lambda m: _forward(
        f"ops.quantized.{name}(input, self._packed_params, {_parameters(m)})")


def _write_dynamic_linear(name: str) -> Callable[[Any], Methods]:
    def write(m: Any) -> Methods:
        if m._packed_params.dtype is float16:
            return _forward(f"ops.quantized.{name}_fp16(input, self._packed_params)")
        return _forward(f"ops.quantized.{name}(input, self._packed_params, True)")

    return write


def _convolution(ending: str) -> Callable[[Any], Methods]:
    def write(m: Any) -> Methods:
        if m.padding_mode != "zeros":
            raise NotImplementedError(f"padding_mode {m.padding_mode!r} of {type(m).__name__}")
        return _forward(f"ops.quantized.conv{_rank(m)}d{ending}(input, self._packed_params, "
                        f"{_parameters(m)})")

    return write


def _batch_norm(name: str) -> Callable[[Any], Methods]:
    return lambda m: _forward(
        f"ops.quantized.{name}(input, self.weight, self.bias, self.running_mean, "
        f"self.running_var, {m.eps}, {_parameters(m)})")


def _norm(name: str, *settings: str) -> Callable[[Any], Methods]:
    def write(m: Any) -> Methods:
        values = "".join(f"{write_literal(_as_plain(getattr(m, s)))}, " for s in settings)
        return _forward(f"ops.quantized.{name}(input, {values}self.weight, self.bias, {m.eps}, "
                        f"{_parameters(m)})")

    return write


def _as_plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _quantize(m: Any) -> Methods:
    dtype = number_of_dtype(m.dtype)
    return _forward(
        f"torch.quantize_per_tensor(X, {_parameters(m)}, dtype={dtype})", "X: Tensor")


def _write_functional(m: Any) -> Methods:
    """Write the operations of a converted FloatFunctional."""
    tensors, scalar = "x: Tensor, y: Tensor", "x: Tensor, y: float"
    scale = _parameters(m)
    return {
        **{name: Method(tensors, f"return ops.quantized.{name}(x, y, {scale})")
           for name in ("add", "mul", "add_relu", "matmul")},
        **{name: Method(scalar, f"return ops.quantized.{name}(x, y)")
           for name in ("add_scalar", "mul_scalar")},
        "cat": Method("x: List[Tensor], dim: int=0", f"return ops.quantized.cat(x, dim, {scale})"),
    }


def _write_float_functional(m: Any) -> Methods:
    """Write the operations of a FloatFunctional without an observer."""
    if type(m.activation_post_process).__name__ != Identity.__name__:
        raise NotImplementedError("a FloatFunctional that is observed")
    tensors, scalar = "x: Tensor, y: Tensor", "x: Tensor, y: float"
    return {
        **{name: Method(tensors, f"return torch.{name}(x, y)")
           for name in ("add", "mul", "matmul")},
        **{f"{name}_scalar": Method(scalar, f"return torch.{name}(x, y)")
           for name in ("add", "mul")},
        "add_relu": Method(tensors, "return torch.relu(torch.add(x, y))"),
        "cat": Method("x: List[Tensor], dim: int=0", "return torch.cat(x, dim)"),
    }


def _iterate_rows() -> Iterator[tuple[type, Callable[[Any], Methods]]]:
    yield quantized.Linear, _write_linear("linear")
    yield fused.LinearReLU, _write_linear("linear_relu")
    yield dynamic.Linear, _write_dynamic_linear("linear_dynamic")
    yield fused.dynamic.LinearReLU, _write_dynamic_linear("linear_relu_dynamic")
    for rank in (1, 2, 3):
        yield getattr(quantized, f"Conv{rank}d"), _convolution("")
        yield getattr(fused, f"ConvReLU{rank}d"), _convolution("_relu")
        yield getattr(quantized, f"InstanceNorm{rank}d"), _norm("instance_norm")
    for rank in (2, 3):
        yield getattr(quantized, f"BatchNorm{rank}d"), _batch_norm(f"batch_norm{rank}d")
        yield getattr(fused, f"BNReLU{rank}d"), _batch_norm(f"batch_norm{rank}d_relu")
    yield quantized.LayerNorm, _norm("layer_norm", "normalized_shape")
    yield quantized.GroupNorm, _norm("group_norm", "num_groups")
    yield quantized.Hardswish, lambda m: _forward(
        f"ops.quantized.hardswish(input, {_parameters(m)})")
    yield quantized.ELU, lambda m: _forward(
        f"ops.quantized.elu(input, {_parameters(m)}, {float(m.alpha)})")
    yield quantized.LeakyReLU, lambda m: _forward(
        f"ops.quantized.leaky_relu(input, {m.negative_slope}, {m.inplace}, {_parameters(m)})")
    yield quantized.ReLU6, lambda m: _forward(f"ops.quantized.relu6(input, {m.inplace})")
    yield quantized.Dropout, lambda m: _forward("input")
    yield quantized.Quantize, _quantize
    yield quantized.DeQuantize, lambda m: _forward("torch.dequantize(Xq)", "Xq: Tensor")
    yield quantized.QFunctional, _write_functional
    yield quantized.FloatFunctional, _write_float_functional


_LIBRARY: dict[type, Callable[[Any], Methods]] = dict(_iterate_rows())
