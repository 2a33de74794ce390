"""Compare a quantized model with its float model: weights, and outputs of modules.

`compare_model_outputs` runs both models on the same input, so that errors add up from layer to
layer. `compare_model_stub` runs a float module beside each quantized module, on the same input, and
so shows the errors that each module adds. Modules match by their paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...nn import modules
from ...nn.module import Module
from ...tensor import Tensor
from ...tensor.dtypes import quint8
from ..nn import quantized
from ..nn.quantized import dynamic
from ..quantization.qconfig import QConfig
from ..quantization.quantization_mappings import get_default_compare_output_module_list
from ..quantization.quantize import prepare

__all__ = [
    "Logger", "OutputLogger", "Shadow", "ShadowLogger", "compare_model_outputs",
    "compare_model_stub", "compare_weights", "get_logger_dict", "get_matching_activations",
    "prepare_model_outputs", "prepare_model_with_stubs",
]

NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST = {
    dynamic.Linear, quantized.Linear, dynamic.LSTM, modules.LSTM}


class Logger(Module):
    """Base class of loggers: `stats` holds what they record."""

    def __init__(self) -> None:
        super().__init__()
        self.stats: dict[str, Any] = {}
        self.dtype = quint8

    def forward(self, x: Any) -> Any:
        """Record a value; this one records nothing."""


class ShadowLogger(Logger):
    """Records the outputs of a quantized module and of its float shadow.

    From several outputs, or several rows, it keeps the first, as PyTorch does.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stats.update({"float": [], "quantized": []})

    def forward(self, x: Any, y: Any) -> None:  # type: ignore[override]
        """Record the quantized module's output x and its shadow's y."""
        for name, output in (("quantized", x), ("float", y)):
            first = output[0] if len(output) > 1 else output
            self.stats[name].append(first.detach())


class OutputLogger(Logger):
    """Records the outputs of a module."""

    def __init__(self) -> None:
        super().__init__()
        self.stats["tensor_val"] = []

    def forward(self, x: Any) -> Any:
        """Record the output and return it."""
        self.stats["tensor_val"].append(x)
        return x


def _list_tuples(value: Any) -> Any:
    """Return a value with lists in place of its tuples."""
    return [_list_tuples(item) for item in value] if type(value) is tuple else value


def _dequantize(value: Any) -> Any:
    """Return a value with float tensors in place of its quantized tensors."""
    if isinstance(value, list | tuple):
        return [_dequantize(item) for item in value]
    return value.dequantize() if isinstance(value, Tensor) and value.is_quantized else value


class Shadow(Module):
    """Runs a float module beside a quantized module and logs both outputs.

    Args:
        logger_cls: Class of the logger, which is called with both outputs: ShadowLogger.
    """

    def __init__(self, q_module: Any, float_module: Any, logger_cls: Callable[[], Any]) -> None:
        super().__init__()
        self.orig_module, self.shadow_module = q_module, float_module
        self.dequant = quantized.DeQuantize()
        self.logger = logger_cls()

    def _compare(self, method: str, *args: Any) -> Any:
        """Call a method of both modules, log what they return, and return the quantized output."""
        output = getattr(self.orig_module, method)(*args)
        shadow_output = getattr(self.shadow_module, method)(*map(_dequantize, args))
        self.logger(output, shadow_output)
        return output

    def forward(self, *x: Any) -> Any:
        """Return the quantized module's output."""
        return self._compare("__call__", *_list_tuples(x))

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum of two tensors by a QFunctional."""
        return self._compare("add", x, y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """The sum of a tensor and a number by a QFunctional."""
        return self._compare("add_scalar", x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """The product of two tensors by a QFunctional."""
        return self._compare("mul", x, y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """The product of a tensor and a number by a QFunctional."""
        return self._compare("mul_scalar", x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """Concatenate tensors by a QFunctional."""
        return self._compare("cat", x, dim)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum of two tensors, then relu, by a QFunctional."""
        return self._compare("add_relu", x, y)


def _find_match(paths: Iterable[str], path: str, last: str) -> str | None:
    """Return the first of `paths` in the module of `path`, which ends in `last`, or one below it.

    Packed parameters ("fc._packed_params._packed_params") match in the module that packs them too.
    """
    *module, name = path.split(".")
    if name != last:
        return None
    owners = [module, module[:-1]] if last == "_packed_params" and len(module) > 1 else [module]
    for owner in owners:
        for candidate in paths:
            parts = candidate.split(".")
            if owner in (parts[:-1], parts[:-2]):
                return candidate
    return None


def compare_weights(
    float_dict: dict[str, Any], quantized_dict: dict[str, Any]
) -> dict[str, dict[str, Tensor]]:
    """Pair the weights of a float and a quantized model.

    Args:
        float_dict: The float model's `state_dict`.
        quantized_dict: The quantized model's.

    Returns:
        {path in `quantized_dict`: {"float": weight, "quantized": weight}}. For an LSTM's layer,
        the weights of its hidden state.
    """
    pairs: dict[str, tuple[Any, Any]] = {}
    for path, value in quantized_dict.items():
        *parents, last = path.split(".")
        if match := _find_match(float_dict, path, "weight"):
            pairs[path] = float_dict[match], value
        elif match := _find_match(float_dict, path, "_packed_params"):
            pairs[path] = float_dict[match], value[0]
        elif last == "param" and parents[-2:-1] == ["_all_weight_values"]:
            names = [".".join([*parents[:-2], f"weight_{source}_l{parents[-1]}"])
                     for source in ("ih", "hh")]
            if all(name in float_dict for name in names):
                pairs[path] = float_dict[names[1]], value.packed_hh.unpack()[0]
    return {path: {"float": a, "quantized": b} for path, (a, b) in pairs.items()}


def get_logger_dict(mod: Any, prefix: str = "") -> dict[str, dict[str, Any]]:
    """Return {"path.stats": stats} for each module of a model that has a logger as a child."""
    stats = {}
    for path, module in mod.named_modules(prefix=prefix):
        logger = next((child for child in module.children() if isinstance(child, Logger)), None)
        if logger is not None:
            stats[f"{path}.stats" if path else "stats"] = logger.stats
    return stats


def prepare_model_with_stubs(
    float_module: Any, q_module: Any, module_swap_list: set[Any], logger_cls: Callable[[], Any]
) -> None:
    """Replace each quantized module by a Shadow of it and its float module.

    Args:
        module_swap_list: Classes of float modules that get a Shadow.
        logger_cls: Class of the Shadows' loggers.
    """
    float_children = dict(float_module.named_children())
    shadows = {}
    for name, child in q_module.named_children():
        if name not in float_children:
            continue
        float_child = float_children[name]
        if type(float_child) not in module_swap_list:
            prepare_model_with_stubs(float_child, child, module_swap_list, logger_cls)
        elif [*map(type, child.modules())] != [*map(type, float_child.modules())]:
            shadows[name] = Shadow(child, float_child, logger_cls)
    q_module._modules.update(shadows)


def compare_model_stub(
    float_model: Any, q_model: Any, module_swap_list: set[Any], *data: Any,
    logger_cls: Callable[[], Any] = ShadowLogger,
) -> dict[str, dict[str, Any]]:
    """Run a quantized model on `data` with a float module beside each quantized module.

    Args:
        module_swap_list: Classes of float modules that run beside their quantized modules.
        logger_cls: Class of loggers, called with the quantized and the float output.

    Returns:
        {"path.stats": {"float": outputs, "quantized": outputs}}, with outputs of the same input.
    """
    prepare_model_with_stubs(float_model, q_model, module_swap_list, logger_cls)
    q_model(*data)
    return get_logger_dict(q_model)


def get_matching_activations(float_module: Any, q_module: Any) -> dict[str, dict[str, Any]]:
    """Pair what the loggers of a float and a quantized model recorded.

    Returns:
        {"path.stats": {"float": outputs, "quantized": outputs}}, by the quantized model's paths.
    """
    floats = get_logger_dict(float_module)
    pairs = {}
    for path, stats in get_logger_dict(q_module).items():
        match = _find_match(sorted(floats, reverse=True), path, "stats")
        if stats["tensor_val"] and match is not None:
            pairs[path] = {"float": floats[match]["tensor_val"], "quantized": stats["tensor_val"]}
    return pairs


def prepare_model_outputs(
    float_module: Any, q_module: Any, logger_cls: Callable[[], Any] = OutputLogger,
    allow_list: set[Any] | None = None,
) -> None:
    """Add loggers to the modules of both models.

    Args:
        allow_list: Classes of modules that get a logger; None: all that quantization knows.
    """
    if allow_list is None:
        allow_list = get_default_compare_output_module_list()
    non_leaves: tuple[Any, ...] = (None, NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST)
    for module, classes in zip((float_module, q_module), non_leaves, strict=True):
        module.qconfig = QConfig(activation=logger_cls, weight=None)
        prepare(module, inplace=True, allow_list=allow_list,
                observer_non_leaf_module_list=classes, prepare_custom_config_dict={})


def compare_model_outputs(
    float_model: Any, q_model: Any, *data: Any, logger_cls: Callable[[], Any] = OutputLogger,
    allow_list: set[Any] | None = None,
) -> dict[str, dict[str, Any]]:
    """Run both models on `data` and pair the outputs of their modules.

    Args:
        logger_cls: Class of the loggers.
        allow_list: Classes of modules whose outputs are compared; None: all that quantization
            knows.

    Returns:
        {"path.stats": {"float": outputs, "quantized": outputs}}.
    """
    prepare_model_outputs(float_model, q_model, logger_cls, allow_list)
    float_model(*data)
    q_model(*data)
    return get_matching_activations(float_model, q_model)
