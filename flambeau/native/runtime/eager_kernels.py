"""The table of eager operators' kernels, and the lookup that compiles them on demand.

A kernel is named by its builder function. The builder's module and the loop IR are imported when
the first kernel is built, so a program on small tensors never imports them. Kernels that depend on
more than a dtype and a few settings (products, convolutions, recurrent layers, random numbers) use
background_jit.py directly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from . import background_jit

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from ..loop_ir.ir import Kernel


class EagerKernel:
    """A kernel built by a function of a module in flambeau.native.kernels.

    `exact`: the kernel returns the same bits as NumPy, so calls may use it as soon as it is
    compiled.
    """

    __slots__ = ("exact", "module", "name")

    declared: ClassVar[list[EagerKernel]] = []

    def __init__(self, module: str, name: str, exact: bool = False) -> None:
        self.module, self.name, self.exact = module, name, exact
        self.declared.append(self)

    def __repr__(self) -> str:
        return f"{self.module}.{self.name}"

    def address(self, dtype: np.dtype | str, *settings: Any) -> int | None:
        """Return the kernel's address for a dtype, or None until it is compiled.

        The first call requests it (see `request_kernel`).
        """
        function = background_jit.request_kernel(
            (self, dtype, *settings),
            lambda: self.build(dtype if isinstance(dtype, str) else dtype.name, *settings),
            self.exact)
        return None if function is None else function.address

    def resolve(self) -> Callable[..., Any]:
        """Import the builder function."""
        module = import_module(f"...kernels.{self.module}", __name__)
        return getattr(module, self.name)

    def build(self, type_name: str, *settings: Any) -> Kernel:
        """Build the kernel for an element type."""
        from ..loop_ir.ir import Type

        kernel: Kernel = self.resolve()(Type(type_name), *settings)
        return kernel


BATCH_NORM = EagerKernel("group_and_batch_norm", "batch_norm")
BATCH_NORM_BACKWARD = EagerKernel("group_and_batch_norm", "batch_norm_backward")

DEPTHWISE_WEIGHT = EagerKernel("depthwise_nhwc", "build_weight_gradient")
DEPTHWISE_WINDOWS = EagerKernel("depthwise_nhwc", "build_forward")

ADD_ROWS = EagerKernel("embedding", "add_rows")
EVEN_BAG_MAXIMA = EagerKernel("embedding", "even_bag_maxima")
SUM_BAGS = EagerKernel("embedding", "sum_bags")
SUM_EVEN_BAGS = EagerKernel("embedding", "sum_even_bags")
TAKE_ROWS = EagerKernel("embedding", "take_rows")

PUT_LAST = EagerKernel("gather_scatter", "put_last", exact=True)
PUT_MIDDLE = EagerKernel("gather_scatter", "put_middle", exact=True)
TAKE_LAST = EagerKernel("gather_scatter", "take_last", exact=True)
TAKE_LAST_CHECKED = EagerKernel("gather_scatter", "take_last_checked", exact=True)
TAKE_MIDDLE = EagerKernel("gather_scatter", "take_middle", exact=True)

GRID_BACKWARD = EagerKernel("grid_sample", "grid_backward")
GRID_SAMPLE = EagerKernel("grid_sample", "sample")
IMAGE_BACKWARD = EagerKernel("grid_sample", "image_backward")

GROUP_NORM = EagerKernel("group_and_batch_norm", "group_norm")
GROUP_NORM_BACKWARD = EagerKernel("group_and_batch_norm", "group_norm_backward")

AFFINE_ROWS = EagerKernel("moments", "affine_rows")
CENTERED_PRODUCTS = EagerKernel("moments", "centered_products")
FOLD_ROWS = EagerKernel("moments", "fold_rows")
LOGSUMEXP = EagerKernel("moments", "logsumexp")
LOGSUMEXP_WITH_TANGENT = EagerKernel("moments", "logsumexp_with_tangent")
EXTREMES_WITH_TANGENTS = EagerKernel("moments", "extremes_with_tangents")
MOMENTS = EagerKernel("moments", "moments")
REDUCE_MIDDLE = EagerKernel("moments", "reduce_middle")

POOL_MAXIMA = EagerKernel("pool", "maxima")
POOL_MAXIMA_BACKWARD = EagerKernel("pool", "maxima_backward")
POOL_PLACES = EagerKernel("pool", "places")
POOL_SUMS = EagerKernel("pool", "sums")
POOL_MAXIMA_WITH_TANGENTS = EagerKernel("pool", "maxima_with_tangents")

POOL_MAXIMA_BACKWARD_NHWC = EagerKernel("pool_nhwc", "maxima_backward")
POOL_MAXIMA_NHWC = EagerKernel("pool_nhwc", "maxima")
POOL_SUMS_NHWC = EagerKernel("pool_nhwc", "sums")

RESAMPLE = EagerKernel("resample", "resample")
TAKE_PIXELS = EagerKernel("resample", "take_pixels")

SCAN_MIDDLE = EagerKernel("scans", "scan_middle")
SCAN_PATHS = EagerKernel("scans", "scan_paths")
SCAN_ROWS = EagerKernel("scans", "scan_rows")
SCAN_SCALED = EagerKernel("scans", "scan_scaled")

SMALL_CROSS_ENTROPY = EagerKernel("small_arrays", "cross_entropy")
SMALL_CROSS_ENTROPY_BACKWARD = EagerKernel("small_arrays", "cross_entropy_backward")
SMALL_LOG_SOFTMAX = EagerKernel("small_arrays", "log_softmax")
SMALL_SOFTMAX = EagerKernel("small_arrays", "softmax")

ATTENTION_PROBABILITIES = EagerKernel("softmax_and_layer_norm", "probabilities")
COLUMN_DOTS = EagerKernel("softmax_and_layer_norm", "column_dots")
COLUMN_PRODUCTS = EagerKernel("softmax_and_layer_norm", "column_products")
COLUMN_SQUARES = EagerKernel("softmax_and_layer_norm", "column_squares")
LAYER_NORM = EagerKernel("softmax_and_layer_norm", "layer_norm")
LAYER_NORM_BACKWARD = EagerKernel("softmax_and_layer_norm", "layer_norm_backward")
LAYER_NORM_TANGENT = EagerKernel("softmax_and_layer_norm", "layer_norm_tangent")
LAYER_NORM_SUMS = EagerKernel("softmax_and_layer_norm", "layer_norm_sums")
LOG_SOFTMAX = EagerKernel("softmax_and_layer_norm", "log_softmax")
LOG_SOFTMAX_BACKWARD = EagerKernel("softmax_and_layer_norm", "log_softmax_backward")
LOG_SOFTMAX_TANGENT = EagerKernel("softmax_and_layer_norm", "log_softmax_tangent")
REDUCE_ALL = EagerKernel("softmax_and_layer_norm", "reduce_all")
REDUCE_COLUMNS = EagerKernel("softmax_and_layer_norm", "reduce_columns")
REDUCE_ROWS = EagerKernel("softmax_and_layer_norm", "reduce_rows")
ROW_DOTS = EagerKernel("softmax_and_layer_norm", "row_dots")
SOFTMAX = EagerKernel("softmax_and_layer_norm", "softmax")
SOFTMAX_BACKWARD = EagerKernel("softmax_and_layer_norm", "softmax_backward")

INTROSELECT = EagerKernel("sort", "introselect")
INTROSORT = EagerKernel("sort", "introsort")
QUICKSELECT = EagerKernel("sort", "quickselect")
SORT_LEAST = EagerKernel("sort", "partial_sort")

COPY_NUMBER = EagerKernel("transpose", "build_fill", exact=True)
COPY_ROWS = EagerKernel("transpose", "build_row_copy", exact=True)
