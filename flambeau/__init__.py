"""flambeau: PyTorch, written in Python. `import flambeau as torch`.

This module is the `torch` namespace: dtypes, tensors, every public operator and, loaded when they
are first touched, the subpackages (nn, optim, utils, ...).
"""

from __future__ import annotations

import importlib
import math as _math
import sys as _sys
import warnings as _warnings
from typing import Any

# NumPy warns where PyTorch computes inf and nan in silence; only for arithmetic done in here.
_OWN = r"flambeau\.(ops|autograd|optim)"
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=_OWN)

from . import autograd, ops
from .autograd.mode import (
    enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad,
    set_grad_enabled,
)  # fmt: skip
from .ops.registry import PUBLIC as _PUBLIC
from .tensor import dtypes as _dtypes
from .tensor.devices import device, get_default_device, set_default_device
from .tensor.dtypes import (
    dtype, finfo, get_default_dtype, iinfo, set_default_dtype,
)  # fmt: skip
from .tensor.generator import Generator, default_generator
from .tensor.layout import (
    channels_last, channels_last_3d, contiguous_format, layout, memory_format, preserve_format,
    sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided,
)  # fmt: skip
from .tensor.print import set_printoptions
from .tensor.promote import can_cast, promote_types, result_type
from .tensor.size import Size
from .tensor.storage import TypedStorage, UntypedStorage
from .tensor.tensor import Tensor

__version__ = "2.13.0+flambeau.0.1.0"

globals().update(_dtypes.all_dtypes())
globals().update(_dtypes.ALIASES)
globals().update(_PUBLIC["torch"])

e, pi, inf, nan, tau = _math.e, _math.pi, _math.inf, _math.nan, _math.tau
newaxis = None

# Subpackages, and names that live in one, imported when first asked for.
_SUBMODULES = frozenset((
    "_utils", "amp", "backends", "compiler", "cuda", "distributions", "fft", "func", "jit",
    "linalg", "nn", "optim", "overrides", "random", "return_types", "serialization", "special",
    "signal", "storage", "testing", "types", "utils", "version", "mps", "xpu", "multiprocessing",
    "hub", "distributed", "onnx", "profiler", "fx", "export", "sparse", "masked", "torch_alias",
    "_C",
))  # fmt: skip
_ELSEWHERE = {
    "autocast": "amp", "GradScaler": "amp", "save": "serialization", "load": "serialization", "Parameter": "nn",
    "compile": "compiler", "vmap": "func",
}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
            raise AttributeError(
                f"module 'torch' has no attribute '{name}': flambeau does not have torch.{name} yet"
            ) from None
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(f"{__name__}.{_ELSEWHERE[name]}"), name)
    raise AttributeError(f"module 'torch' has no attribute '{name}'")


def _reduce_tensor(self: Tensor, protocol: int) -> Any:
    from .serialization.rebuild import reduce_tensor

    return reduce_tensor(self)


Tensor.__reduce_ex__ = _reduce_tensor


def is_storage(obj: Any) -> bool:
    """Whether `obj` is a storage."""
    return isinstance(obj, (TypedStorage, UntypedStorage))


def get_num_threads() -> int:
    """How many threads matrix products use."""
    from .ops.threads import get_num_threads

    return get_num_threads()


def set_num_threads(int: int) -> None:
    """Sets how many threads matrix products use."""
    from .ops.threads import set_num_threads

    set_num_threads(int)


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether automatic mixed precision is on: it never is on the CPU's default path."""
    from .amp import autocast_enabled

    return autocast_enabled()


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype by a legacy type or its name ('torch.DoubleTensor')."""
    from .ops.conversion import _LEGACY

    set_default_dtype(_LEGACY[t] if isinstance(t, str) else t.legacy_dtype)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted: flambeau's algorithms are deterministic."""


def are_deterministic_algorithms_enabled() -> bool:
    """True: they always are."""
    return True


def set_float32_matmul_precision(precision: str) -> None:
    """Accepted: float32 products are computed in float32."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"{precision} is not one of 'highest', 'high', or 'medium'")


def get_float32_matmul_precision() -> str:
    """'highest'."""
    return "highest"


def _typed(name: str, legacy_dtype: dtype) -> type:
    """A legacy class such as FloatTensor: its constructor makes tensors of one dtype."""

    class _Legacy(type):
        def __call__(cls, *args: Any) -> Tensor:
            from .ops.conversion import _construct

            return _construct(Tensor, *args, dtype=legacy_dtype)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, Tensor) and instance.dtype is legacy_dtype

    made = _Legacy(name, (), {"legacy_dtype": legacy_dtype, "dtype": legacy_dtype})
    made.__module__ = "torch"
    return made


for _name, _dtype in (
    ("FloatTensor", "float32"), ("DoubleTensor", "float64"), ("HalfTensor", "float16"),
    ("BFloat16Tensor", "bfloat16"), ("ByteTensor", "uint8"), ("CharTensor", "int8"),
    ("ShortTensor", "int16"), ("IntTensor", "int32"), ("LongTensor", "int64"),
    ("BoolTensor", "bool"),
):  # fmt: skip
    setattr(_sys.modules[__name__], _name, _typed(_name, _dtypes.by_name(_dtype)))
