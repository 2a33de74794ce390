"""torch._C: what programs take from PyTorch's C++ module, as far as it means something here."""

from __future__ import annotations

import enum
import sys
import weakref
from functools import partial
from importlib import import_module
from typing import Any

from .autograd import forward_ad, tangents
from .autograd.engine import current_task_number, is_graph_retained
from .autograd.mode import MODE
from .autograd.saved.values import SavedTensor
from .autograd.traces import bindings as _profiler
from .ops.registration.aten_schemas import schemas
from .ops.registration.schema import Argument, InferredType
from .ops.registration.schema import Schema as FunctionSchema
from .ops.registration.schema import ScriptType as Type
from .ops.registration.schema import infer_type as _jit_try_infer_type
from .ops.registration.dispatch_keys import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard
from .ops.interception.subclass import DisableTorchFunction, DisableTorchFunctionSubclass
from .ops.interception.subclass import EnableTorchFunction as _EnableTorchFunction
from .ops.interception.torch_dispatch import without_dispatch as _without_dispatch
from .ops.interception.torch_function import STATE as _STATE
from .ops.interception.torch_function import _disabled_torch_function_impl, enter, leave
from .futures import Future
from .ops.attention.backend_choice import SDPBackend as _SDPBackend
from .ops.linalg.matrix_checks import _LinAlgError
from .tensor import Tensor, dtype
from .tensor.devices import device, get_default_device
from .tensor.random.generator import Generator
from .tensor.absent import lacking
from .tensor.size import Size

__all__ = [
    "Argument", "DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey",
    "DispatchKeySet", "FunctionSchema", "Future", "Generator", "InferredType", "Size", "TensorBase",
    "Type", "_EnableTorchFunction", "_ExcludeDispatchKeyGuard", "_LinAlgError", "_SDPBackend",
    "_disabled_torch_function_impl", "_jit_try_infer_type", "device", "dtype",
]

TensorBase = _TensorBase = Tensor
_TensorMeta = type(Tensor)
_TRACE = object()
has_cuda = has_mps = has_mkl = has_lapack = has_openmp = False


class _WeakTensorRef:
    """A reference that does not hold its tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._reference() is None


def _current_graph_task_id() -> int:
    """The number of the backward pass that this thread is in; -1 outside of one."""
    number = current_task_number()
    return -1 if number is None else number


class _DisableTorchDispatch:
    """From its making on until it is deleted, `__torch_dispatch__` is not asked in this thread."""

    def __init__(self) -> None:
        self._region = _without_dispatch()
        self._region.__enter__()

    def __del__(self) -> None:
        self._region.__exit__(None, None, None)


class _TorchFunctionState(enum.Enum):
    """Who is asked for an override: modes and classes, modes alone, nobody."""

    ENABLED, SUBCLASSES_DISABLED, ALL_DISABLED = range(3)


def _get_torch_function_state() -> _TorchFunctionState:
    """Who is asked for an override in this thread."""
    if _STATE.nothing:
        return _TorchFunctionState.ALL_DISABLED
    off = _STATE.no_subclasses
    return _TorchFunctionState.SUBCLASSES_DISABLED if off else _TorchFunctionState.ENABLED


def _set_torch_function_state(state: _TorchFunctionState) -> None:
    """Set who is asked for an override in this thread."""
    _STATE.nothing = int(state is _TorchFunctionState.ALL_DISABLED)
    _STATE.no_subclasses = int(state is not _TorchFunctionState.ENABLED)


def _is_torch_function_enabled() -> bool:
    """Whether classes of arguments are asked."""
    return not _STATE.no_subclasses


def _is_torch_function_all_disabled() -> bool:
    """Whether nobody is asked."""
    return bool(_STATE.nothing)


def _is_torch_function_mode_enabled() -> bool:
    """Whether a mode is on and asked."""
    return bool(_STATE.modes) and not _STATE.nothing


def _len_torch_function_stack() -> int:
    """How many modes are on."""
    return len(_STATE.modes)


def _get_function_stack_at(index: int) -> Any:
    """The mode at this place, the first one entered at 0."""
    return _STATE.modes[index]


def _push_on_torch_function_stack(mode: Any) -> None:
    """Enter a mode."""
    enter(mode)


def _pop_torch_function_stack() -> Any:
    """Leave the last mode, and give it."""
    mode = _STATE.modes[-1]
    leave(mode)
    return mode


def _is_fwd_grad_enabled() -> bool:
    """Whether operators push tangents in this thread."""
    return forward_ad._is_fwd_grad_enabled()


def _set_fwd_grad_enabled(enabled: bool) -> None:
    """Set whether operators push tangents in this thread."""
    tangents.LEVELS.enabled = enabled


def _log_api_usage_once(event: str) -> None:
    """Accepted: nobody is told."""


def _is_tracing() -> bool:
    """Whether torch.jit.trace runs the code that asks."""
    return import_module("flambeau.jit").is_tracing()


def _get_tracing_state() -> object | None:
    """What stands for the trace that runs; None without one."""
    return _TRACE if _is_tracing() else None


def _get_accelerator(check: Any = None) -> device:
    """The CPU."""
    return device("cpu")


def _get_default_device() -> str:
    """The default device's name."""
    return str(get_default_device())


def _get_privateuse1_backend_name() -> str:
    """What PyTorch calls a device that nobody has registered."""
    return "privateuseone"


def _are_functorch_transforms_active() -> bool:
    """False."""
    return False


def _jit_set_profiling_executor(enabled: bool) -> bool:
    """Accepted: there is no TorchScript."""
    return enabled


_jit_set_profiling_mode = _jit_override_can_fuse_on_cpu = _jit_set_profiling_executor
_jit_override_can_fuse_on_gpu = _jit_set_texpr_fuser_enabled = _jit_set_profiling_executor
_jit_set_nvfuser_enabled = _jit_set_nvfuser_guard_mode = _jit_set_profiling_executor


def _jit_can_fuse_on_cpu() -> bool:
    """False: there is no TorchScript."""
    return False


_jit_can_fuse_on_gpu = _jit_can_fuse_on_cpu


def parse_schema(schema: str) -> FunctionSchema:
    """Return a schema such as `ns::name(Tensor x) -> Tensor` as an object."""
    space, _, rest = schema.partition("::")
    if "(" in space:
        return FunctionSchema("", schema)
    return FunctionSchema(space.strip(), rest)


def _jit_get_schemas_for_operator(name: str) -> list[FunctionSchema]:
    """Return the schemas of `aten::name`."""
    return list(schemas(name.removeprefix("aten::")).values())


class _Builtins:
    """A namespace of C++ functions, which are flambeau's of a public one, by other names."""

    def __init__(self, space: str, prefix: str = "", renamed: dict[str, str] | None = None) -> None:
        self._space, self._prefix, self._renamed = space, prefix, renamed or {}

    def __getattr__(self, name: str) -> Any:
        known = self._renamed.get(name, name.removeprefix(self._prefix))
        if not name.startswith(self._prefix) or name.startswith("__"):
            raise AttributeError(f"module 'torch._C' has no attribute '{name}'")
        return getattr(import_module(f"{__package__}.{self._space}"), known)


_PADDINGS = {"reflection": "reflect", "replication": "replicate"}


class _Functions(_Builtins):
    """torch._C._nn."""

    @staticmethod
    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
        """(device, dtype, non_blocking, memory_format) of what `to` was called with."""
        kind, place = kwargs.get("dtype"), kwargs.get("device")
        flags = []
        for value in args:
            if isinstance(value, Tensor):
                kind, place = value.dtype, value.device
            elif isinstance(value, dtype):
                kind = value
            elif isinstance(value, bool):
                flags.append(value)
            elif value is not None:
                place = value
        blocking = flags[0] if flags else bool(kwargs.get("non_blocking", False))
        where = None if place is None else device(place)
        return where, kind, blocking, kwargs.get("memory_format")

    @staticmethod
    def pad_sequence(*args: Any, **kwargs: Any) -> Tensor:
        """torch.nn.utils.rnn's."""
        padded: Tensor = import_module(f"{__package__}.nn.utils.rnn").pad_sequence(*args, **kwargs)
        return padded

    def __getattr__(self, name: str) -> Any:
        """Padding has a function for each mode and number of axes."""
        mode, _, axes = name.partition("_pad")
        if mode in _PADDINGS and axes in ("1d", "2d", "3d"):
            return partial(self._padded, _PADDINGS[mode], int(axes[0]))
        return super().__getattr__(name)

    def _padded(
        self, mode: str, axes: int, input: Tensor, padding: Any, *, out: Tensor | None = None
    ) -> Tensor:
        """The input padded by reflection or replication; one number holds for all sides."""
        sides = [padding] * (2 * axes) if isinstance(padding, int) else list(padding)
        padded: Tensor = self.pad(input, sides, mode=mode)
        return padded if out is None else out.copy_(padded)

    def gelu_(self, input: Tensor, *, approximate: str = "none") -> Tensor:
        """gelu in place."""
        return input.copy_(self.gelu(input.clone(), approximate=approximate))


_functions = import_module(f"{__package__}.autograd._functions")
_nn = _Functions("nn.functional", renamed={"log_sigmoid": "logsigmoid", "nll_loss2d": "nll_loss"})
_linalg, _fft = _Builtins("linalg", "linalg_"), _Builtins("fft", "fft_")
_special = _Builtins("special", "special_")
sys.modules[f"{__name__}._profiler"] = _profiler  # `from torch._C._profiler import ...`


class _Autograd:
    """torch._C._autograd: questions about the profiler, saved tensors and the backward pass."""

    SavedTensor = SavedTensor
    _get_current_graph_task_keep_graph = staticmethod(is_graph_retained)
    _profiler_type = staticmethod(_profiler._profiler_type)
    DeviceType = _profiler.DeviceType

    @staticmethod
    def _saved_tensors_hooks_is_enabled() -> bool:
        return MODE.saved_hooks_disabled is None

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"torch._C._autograd.{name} is not implemented in flambeau")


_autograd = _Autograd()


__getattr__ = lacking(__name__, (
    "CompilationUnit", "FileCheck", "Graph", "JITException", "Node",
    "PyTorchFileReader", "PyTorchFileWriter", "ScriptFunction", "ScriptModule", "Value",
    "_distributed_c10d", "_functorch",
))
