"""Operators: one block each, in one file a family. `ops.NAME` is torch.NAME for every public name.

The families register themselves on import; `PUBLIC` then holds what users see, by namespace.
"""

from __future__ import annotations

import importlib
from typing import Any

from .core.aten import Packet, aten, prim
from .core.operator import OPERATORS, PUBLIC
from .registration.aten_schemas import get_schemas
from .registration.tags import find_tags

# Every family of operators, by folder; importing one registers its operators.
FAMILIES = {
    "core": "attributes",
    "creation": (
        "conversion copies creation dropout fill gamma_draws interchange random sequences"
    ),
    "pointwise": (
        "arithmetic bitwise combination compare complex_numbers division exponential extrema "
        "foreach logical power python_callback rounding selection trigonometric"
    ),
    "activation": "exponential_units gates gelu rectifiers sigmoids softmax softplus",
    "special": "bessel entropy error_function gamma polynomials quantile_gradient",
    "reduction": (
        "extremes hashing histograms reduce scan sort statistics unique variance vector_norms"
    ),
    "view": (
        "expand grids join padding reshape sections shuffle slices strided transpose triangles "
        "unravel view_copy view_inplace"
    ),
    "indexing": (
        "batched_positions embedding embedding_bag gather index index_put index_select mask "
        "masked_index segments"
    ),
    "linalg": (
        "cholesky eigen einsum grouped ldl linear low_rank lu matmul matrix_checks "
        "matrix_functions pinv products qr solves svd vector_distance vectors"
    ),
    "spatial": "convolution fold grid_sample interpolation upsample",
    "spatial.pooling": "adaptive_pool avg_pool fractional_pool max_pool unpool",
    "normalization": "batch_norm group_norm layer_norm",
    "recurrent": "elman gru lstm",
    "attention": "multihead scaled_dot_product whole_layers",
    "loss": "binary cross_entropy ctc elementwise linear_cross_entropy loss_scaling margin",
    "fft": "fft stft window_functions",
    "sparse": "entry",
    "quantized": "conversion dispatch fake learnable_fake parameter_search recurrent weight_only",
    "registration": "removed_functions",
    "interception":
        "forward_mode mutation_of_saved_tensors operator_timing subclass torch_dispatch",
}

Packet.schemas_of, Packet.tags_of = staticmethod(get_schemas), staticmethod(find_tags)
for _folder, _names in FAMILIES.items():
    for _name in _names.split():
        importlib.import_module(f"{__name__}.{_folder}.{_name}")


def __getattr__(name: str) -> Any:
    if name in ("load_library", "loaded_libraries"):  # late: few programs load one
        return getattr(importlib.import_module(f"{__name__}.registration.compiled_libraries"), name)
    try:
        return PUBLIC["torch"][name]
    except KeyError:
        if name.startswith("__"):
            raise AttributeError(f"module 'flambeau.ops' has no attribute '{name}'") from None
    from .registration.custom_operators import get_namespace  # late: few programs have their own

    if name == "profiler":
        importlib.import_module(f"{__name__}.registration.profiler_labels")
    # As in PyTorch every name is one, with nothing in it at first, and can be deleted.
    return globals().setdefault(name, get_namespace(name))


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC["torch"]})


__all__ = ["OPERATORS", "PUBLIC"]
