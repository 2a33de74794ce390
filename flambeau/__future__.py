"""torch.__future__: how a module's conversion replaces its parameters."""

from __future__ import annotations

from .nn.conversion import ConversionPolicy

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether `module.double()` and its like make new parameters instead of changing the old.

    >>> torch.__future__.set_overwrite_module_params_on_conversion(False)
    """
    ConversionPolicy.overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether conversions make new parameters.

    >>> torch.__future__.get_overwrite_module_params_on_conversion()
    False
    """
    return ConversionPolicy.overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether `load_state_dict` swaps what it loads into the parameters, which `assign` replaces
    otherwise. Conversions leave a parameter the same object in either case.

    >>> torch.__future__.set_swap_module_params_on_conversion(False)
    """
    ConversionPolicy.swap = value


def get_swap_module_params_on_conversion() -> bool:
    """What set_swap_module_params_on_conversion was told.

    >>> torch.__future__.get_swap_module_params_on_conversion()
    False
    """
    return ConversionPolicy.swap
