"""flambeau: PyTorch, written in Python. `import flambeau as torch`.

This module is the `torch` namespace: dtypes, tensors, every public operator and, loaded on first
use, the subpackages (nn, optim, utils, ...).
"""

from __future__ import annotations

import importlib
import math as _math
import os as _os
import sys as _sys
import warnings as _warnings
from typing import Any

# OpenBLAS's threads spin for 26 ms after a product and slow ours; 2**17 cycles are enough.
# It reads this when NumPy is first imported.
_os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "17")

# NumPy warns about inf and nan, PyTorch does not; silence only arithmetic done in this package:
# in threads that start later, or where the program chooses to be warned, by a filter.
_OWN = r"flambeau\.(ops|autograd|optim|train\.metrics)"
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=_OWN)

from .native.foundation.allocator import keep_freed_memory as _keep_freed_memory
from .native.foundation.numpy_warnings import listen as _listen

_keep_freed_memory()
_listen()

from . import autograd, ops
from .autograd.mode import (
    enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad,
    set_grad_enabled,
)
from .autograd.backward import Batched as _Batched
from .autograd.anomaly import (
    is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled,
)
from ._namespace.assertions import (
    _assert, _assert_async, _assert_tensor_metadata, _check, _check_index, _check_is_size,
    _check_not_implemented, _check_tensor_all, _check_tensor_all_with, _check_type, _check_value,
    _check_with, _is_all_true, _shape_as_tensor,
)
from ._namespace.legacy_types import legacy_types as _legacy_types
from ._namespace.legacy_types import set_default_tensor_type, typename
from ._namespace.settings import (
    _running_with_deploy, are_deterministic_algorithms_enabled, compiled_with_cxx11_abi,
    get_deterministic_debug_mode,
    get_device_module, get_float32_matmul_precision, get_num_interop_threads, get_num_threads,
    init_num_threads, is_deterministic_algorithms_warn_only_enabled, is_vulkan_available,
    is_warn_always_enabled, set_deterministic_debug_mode, set_flush_denormal,
    set_float32_matmul_precision, set_num_interop_threads, set_num_threads, set_warn_always,
    use_deterministic_algorithms,
)
from .ops.core.operator import PUBLIC as _PUBLIC
from ._namespace.symbolic_numbers import (
    SymBool, SymFloat, _sym_sqrt, sym_float, sym_int, sym_ite, sym_max, sym_min, sym_not, sym_sqrt,
    sym_sum,
)
from .tensor import dtypes as _dtypes
from .tensor.devices import device, get_default_device, set_default_device
from .tensor.dtypes import (
    dtype, finfo, get_default_dtype, iinfo, set_default_dtype,
)
from .tensor.random.generator import Generator, default_generator
from .tensor.layout import (
    _mkldnn, channels_last, channels_last_3d, contiguous_format, jagged, layout,
    legacy_contiguous_format, memory_format, preserve_format, sparse_bsc, sparse_bsr, sparse_coo,
    sparse_csc, sparse_csr, strided,
)
from .tensor.printing import set_printoptions
from .tensor.quantizers import (
    per_channel_affine, per_channel_affine_float_qparams, per_channel_symmetric,
    per_tensor_affine, per_tensor_symmetric, qscheme,
)
from .tensor.promotion import can_cast, promote_types, result_type
from .tensor.size import Size
from .tensor.absent import give_absent_methods as _give_absent_methods
from .tensor.absent import install_finders as _install_finders, make_absent_getattr as _lacking
from .tensor.storage import TypedStorage, UntypedStorage
from .tensor.symbolic_length import SymInt
from .tensor.tensor import Tensor
from .torch_version import TorchVersion as _TorchVersion
from . import version as _version

__version__ = _TorchVersion(f"{_version.__version__}+flambeau.{_version._flambeau_version}")

globals().update(_dtypes.all_dtypes())
globals().update(_dtypes.ALIASES)
globals().update(_dtypes.NOMINAL)
globals().update(_PUBLIC["torch"])

e, pi, inf, nan, tau = _math.e, _math.pi, _math.inf, _math.nan, _math.tau
newaxis = None

# Subpackages, and names defined in one, imported on first use.
_SUBMODULES = frozenset((
    "_C", "__config__", "__future__", "_custom_op", "_custom_ops", "_decomp", "_dynamo", "_export",
    "_functorch", "_guards", "_higher_order_ops", "_inductor", "_library", "_logging", "_ops",
    "_subclasses", "_tensor_str", "_utils", "_vmap_internals", "accelerator", "amp", "ao",
    "backends", "compiler", "cpu", "cuda", "distributed", "distributions", "doctor", "export",
    "fft", "func", "functional", "futures", "fx", "hub", "jit", "library", "linalg", "masked",
    "monitor", "mps", "mtia", "multiprocessing", "nested", "nn", "onnx", "optim", "overrides",
    "profiler", "quantization", "random", "return_types", "serialization", "signal", "sparse",
    "special", "storage", "testing", "torch_version", "train", "types", "utils", "version", "xpu",
))
_ELSEWHERE = {
    "cond": "_higher_order_ops.cond",
    "while_loop": "_higher_order_ops.while_loop",
    "Tag": "ops.registration.tags",
    **dict.fromkeys(("AcceleratorError", "Event", "OutOfMemoryError", "Stream"), "accelerator"),
    **dict.fromkeys(("GradScaler", "autocast"), "amp"),
    **dict.fromkeys((
        "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
        "get_autocast_dtype", "is_autocast_cache_enabled", "is_autocast_enabled",
        "set_autocast_cache_enabled", "set_autocast_dtype", "set_autocast_enabled",
    ), "amp.autocast_mode"),
    **dict.fromkeys((
        "get_autocast_cpu_dtype", "get_autocast_gpu_dtype", "get_autocast_ipu_dtype",
        "get_autocast_xla_dtype", "is_autocast_cpu_enabled", "is_autocast_ipu_enabled",
        "is_autocast_xla_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled",
        "set_autocast_gpu_dtype", "set_autocast_ipu_dtype", "set_autocast_ipu_enabled",
        "set_autocast_xla_dtype", "set_autocast_xla_enabled",
    ), "amp.device_names"),
    **dict.fromkeys(("ScriptFunction", "ScriptModule"), "jit"),
    **dict.fromkeys(("fork", "wait"), "jit"),
    **dict.fromkeys(("DisableTorchFunction", "DisableTorchFunctionSubclass"), "_C"),
    "Future": "futures", "Parameter": "nn.parameter", "compile": "compiler",
    **dict.fromkeys((
        "quantized_batch_norm", "quantized_max_pool1d", "quantized_max_pool2d",
        "quantized_max_pool3d",
    ), "ops.quantized.arithmetic"),
    "load": "serialization", "thread_safe_generator": "random",
    "save": "serialization",
    "vmap": "func",
}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        try:
            return importlib.import_module(f"{__package__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__package__}.{name}":
                raise
            raise AttributeError(
                f"module 'torch' has no attribute '{name}': flambeau does not have torch.{name} yet"
            ) from None
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(f"{__package__}.{_ELSEWHERE[name]}"), name)
    if name == "Storage":  # of the default dtype
        from .tensor.storage import STORAGE_TYPES

        return STORAGE_TYPES[get_default_dtype()]
    if name == "torch":  # programs write torch.torch.Tensor too
        return _sys.modules[__name__]
    return _lacking(__name__)(name)


def __dir__() -> list[str]:
    """Return PyTorch's names, loaded or loaded on first use, without flambeau's own."""
    own = """_Batched _ELSEWHERE _OWN _PUBLIC _SUBMODULES _TorchVersion _dtypes
        _keep_freed_memory _legacy_types _math _os _reduce_tensor _set_tensor_state _sys _version
        _vmap_for_gradcheck _warnings
        _namespace command native"""
    return sorted({*globals(), *_SUBMODULES, *_ELSEWHERE} - set(own.split()))


def _reduce_tensor(self: Tensor, protocol: int) -> Any:
    from .serialization.rebuild import reduce_tensor

    return reduce_tensor(self)


def _set_tensor_state(self: Tensor, state: tuple[Any, ...]) -> None:
    from .serialization.rebuild import set_tensor_state

    set_tensor_state(self, state)


Tensor.__reduce_ex__ = _reduce_tensor
Tensor.__setstate__ = _set_tensor_state


def is_storage(obj: Any) -> bool:
    """Whether `obj` is a storage.

    >>> torch.is_storage(torch.zeros(2).untyped_storage()), torch.is_storage(torch.zeros(2))
    (True, False)
    """
    return isinstance(obj, (TypedStorage, UntypedStorage))


def _vmap_for_gradcheck(function: Any) -> Any:
    return importlib.import_module(f"{__package__}._vmap_internals")._vmap(function, 0, 0, True)


_Batched.vmap = _vmap_for_gradcheck
globals().update(_legacy_types())
_install_finders()
if "_pytest" in _sys.modules or "IPython" in _sys.modules:
    from .native.foundation.tracebacks import install as _install_tracebacks

    _install_tracebacks()
_give_absent_methods(Tensor, (
    "chalf", "index", "resize_as_sparse_", "slice_inverse", "sparse_resize_",
    "sparse_resize_and_clear_", "to_mkldnn", "to_padded_tensor",
))
