"""torch.__future__: how a module's conversion replaces its parameters."""

from __future__ import annotations

from .nn.conversion import ConversionPolicy

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Set whether conversions such as `module.double()` make new parameters or change the old ones.

    >>> torch.__future__.set_overwrite_module_params_on_conversion(False)
    """
    ConversionPolicy.overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Return whether conversions make new parameters.

    >>> torch.__future__.get_overwrite_module_params_on_conversion()
    False
    """
    return ConversionPolicy.overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Set whether `load_state_dict` swaps loaded tensors into the parameters; otherwise `assign`
    replaces them. Conversions keep the parameter objects in either case.

    >>> torch.__future__.set_swap_module_params_on_conversion(False)
    """
    ConversionPolicy.swap = value


def get_swap_module_params_on_conversion() -> bool:
    """Return the value set by set_swap_module_params_on_conversion.

    >>> torch.__future__.get_swap_module_params_on_conversion()
    False
    """
    return ConversionPolicy.swap
