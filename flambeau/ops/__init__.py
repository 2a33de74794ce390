"""Operators: one block each, in one file a family. `ops.NAME` is torch.NAME for every public name.

The families register themselves on import; `PUBLIC` then holds what users see, by namespace.
"""

from __future__ import annotations

import importlib
from typing import Any

from .aten import aten
from .registry import OPERATORS, PUBLIC

# One family a line, in alphabetical order.
FAMILIES = (
    "adaptive_pool",
    "arithmetic",
    "attention",
    "attributes",
    "avg_pool",
    "batch_norm",
    "bessel",
    "binary_losses",
    "bitwise",
    "callbacks",
    "cholesky",
    "combination",
    "compare",
    "complex_numbers",
    "conv",
    "conversion",
    "copies",
    "creation",
    "cross_entropy",
    "ctc",
    "distance",
    "division",
    "dropout",
    "eigen",
    "einsum",
    "elman",
    "embedding",
    "embedding_bag",
    "entropy",
    "error_function",
    "exponential",
    "exponential_units",
    "extrema",
    "fft",
    "fill",
    "fold",
    "foreach",
    "fractional_pool",
    "gamma",
    "gates",
    "gather",
    "gelu",
    "grid",
    "group_norm",
    "gru",
    "index",
    "interchange",
    "interpolation",
    "join",
    "layer_norm",
    "ldl",
    "linear",
    "linear_cross_entropy",
    "logical",
    "loss",
    "low_rank",
    "lstm",
    "lu",
    "margin_loss",
    "mask",
    "matmul",
    "matrices",
    "matrix_functions",
    "max_pool",
    "multihead",
    "norms",
    "padding",
    "pinv",
    "polynomials",
    "power",
    "products",
    "qr",
    "random",
    "rectifiers",
    "reduce",
    "removed",
    "rounding",
    "scan",
    "sections",
    "selection",
    "shuffle",
    "sigmoids",
    "slices",
    "softmax",
    "softplus",
    "solves",
    "sort",
    "statistics",
    "stft",
    "strided",
    "subclass",
    "svd",
    "triangles",
    "trigonometric",
    "unique",
    "unpool",
    "unravel",
    "vectors",
    "view",
    "view_copy",
    "view_inplace",
    "whole_slices",
    "windows",
)

for _name in FAMILIES:
    importlib.import_module(f"{__name__}.{_name}")
for _name in FAMILIES:  # a family's name may be an operator's too, who then has it
    if _name in PUBLIC["torch"]:
        globals()[_name] = PUBLIC["torch"][_name]


def __getattr__(name: str) -> Any:
    if name in ("load_library", "loaded_libraries"):  # late: few programs load one
        return getattr(importlib.import_module(f"{__name__}.compiled_libraries"), name)
    try:
        return PUBLIC["torch"][name]
    except KeyError:
        if name.startswith("_"):
            raise AttributeError(f"module 'flambeau.ops' has no attribute '{name}'") from None
    from .custom import namespace  # late: few programs have operators of their own

    return namespace(name)  # as in PyTorch every name is one, with nothing in it at first


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC["torch"]})


__all__ = ["OPERATORS", "PUBLIC"]
