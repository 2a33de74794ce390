"""Tensors: dtypes, devices, storages, promotion, printing and random numbers."""

from . import deepcopy, python_numbers  # attach copy.deepcopy, float() and their like
from .devices import device
from .dtypes import dtype, get_default_dtype, set_default_dtype
from .size import Size
from .tensor import Tensor, view_of, wrap

__all__ = [
    "Size", "Tensor", "device", "dtype", "get_default_dtype", "set_default_dtype", "view_of",
    "wrap",
]
