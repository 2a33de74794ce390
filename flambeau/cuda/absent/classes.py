"""The classes of torch.cuda that need a GPU: PyTorch's parameters; constructors raise."""

from __future__ import annotations

from typing import Any, NoReturn

from .functions import refuse

_DTYPE_NAMES = (
    "BFloat16", "Bool", "Byte", "Char", "ComplexDouble", "ComplexFloat", "Double", "Float", "Half",
    "Int", "Long", "Short",
)


class Stream:
    """A stream of GPU work; raises RuntimeError without a GPU."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        raise RuntimeError(f"torch.cuda.{type(self).__name__} requires CUDA support")


class ExternalStream(Stream):
    """A stream created elsewhere; raises RuntimeError without a GPU."""

    def __init__(self, stream_ptr: Any, device: Any = None, **kwargs: Any) -> None:
        super().__init__(device, **kwargs)


class _GpuObject:
    """Base class of GPU objects; creating one raises RuntimeError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"Tried to instantiate dummy base class {type(self).__name__}")


class Event(_GpuObject):
    """An event in a stream of GPU work; raises RuntimeError without a GPU."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
        external: bool = False,
    ) -> None:
        super().__init__()


class CUDAGraph(_GpuObject):
    """A recorded sequence of GPU work; raises RuntimeError without a GPU."""

    def __init__(self, keep_graph: bool = False) -> None:
        super().__init__()


class MemPool(_GpuObject):
    """A pool of GPU memory; raises RuntimeError without a GPU."""

    def __init__(
        self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False
    ) -> None:
        super().__init__()


class CUDAPluggableAllocator(_GpuObject):
    """An allocator from a user's library; raises RuntimeError without a GPU."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        super().__init__()


class GreenContext(_GpuObject):
    """A share of a GPU's processors; raises RuntimeError without a GPU."""


class graph:
    """A context manager that records a CUDAGraph; raises RuntimeError without a GPU."""

    def __init__(
        self, cuda_graph: Any, pool: Any = None, stream: Any = None,
        capture_error_mode: str = "global", enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:
        Stream()


class DeferredCudaCallError(Exception):
    """An error of a call that was deferred until CUDA is initialized."""


class CudaError(RuntimeError):
    """A CUDA error, by its code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA error ({code})")


def create_typed_classes() -> dict[str, type]:
    """Return the classes named after a dtype, such as FloatTensor and FloatStorage."""
    storages = [name + "Storage" for name in _DTYPE_NAMES]
    tensors = [name + "Tensor" for name in _DTYPE_NAMES if "Complex" not in name]
    return {
        **{name: _create_class(name, _refuse_storage) for name in storages},
        **{name: _create_class(name, _refuse_tensor) for name in tensors},
    }


def _create_class(name: str, refuse_instance: Any) -> type:
    return type(name, (), {"__init__": refuse_instance, "__module__": "torch.cuda",
                           "__doc__": f"torch.cuda.{name}, which needs a GPU."})


def _refuse_storage(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    refuse()


def _refuse_tensor(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    name = type(self).__name__
    raise TypeError(f"type torch.cuda.{name} not available. Torch not compiled with CUDA enabled.")
