"""Weight normalization by a forward pre-hook: w = g * v / |v| (Salimans and Kingma, 2016).

Deprecated in favor of `parametrizations.weight_norm`.
"""

from __future__ import annotations

from typing import Any

from ...native.foundation.user_frames import warn
from ...tensor import Tensor
from ..module import Module
from ..parameter import Parameter, is_lazy

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


def norm_except_dim(v: Tensor, power: int = 2, dim: int = 0) -> Tensor:
    """The norm over all axes but `dim`, which keep extent 1; over all axes if dim = -1."""
    if dim == -1:
        return v.norm(power)
    axes = [axis for axis in range(v.dim()) if axis != dim]
    return v.norm(power, axes, keepdim=True) if axes else v.abs()


def normalised_weight(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """Scale v to the norms g."""
    return v * (g / norm_except_dim(v, 2, dim))


class WeightNorm:
    """The hook: recompute the weight from `<name>_g` and `<name>_v` before every forward."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """Compute the weight from the current g and v."""
        g, v = (getattr(module, f"{self.name}_{suffix}") for suffix in "gv")
        return normalised_weight(v, g, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace the parameter by g and v, and register the hook."""
        warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of "
            "`torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
        )
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two weight_norm hooks on the same parameter {name}"
                )
        result = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure "
                "to run the dummy forward before applying weight normalization"
            )
        del module._parameters[name]
        norm = norm_except_dim(weight, 2, result.dim)
        module.register_parameter(f"{name}_g", Parameter(norm.data))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        setattr(module, name, result.compute_weight(module))
        module.register_forward_pre_hook(result)
        return result

    def remove(self, module: Module) -> None:
        """Make the current weight an ordinary parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"], module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Split a parameter into its norm over all axes but `dim` and its direction.

    The older form of `parametrizations.weight_norm`. Salimans and Kingma, 2016.

    >>> layer = nn.utils.weight_norm(nn.Linear(3, 2))
    >>> layer.weight_g.shape, layer.weight_v.shape
    (torch.Size([2, 1]), torch.Size([2, 3]))
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Undo `weight_norm`.

    >>> layer = nn.utils.remove_weight_norm(nn.utils.weight_norm(nn.Linear(3, 2)))
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
