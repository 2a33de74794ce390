"""torch._C: the part of PyTorch's C++ module that applies to flambeau."""

from __future__ import annotations

import enum
import sys
import weakref
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from .autograd import forward_ad, tangents
from .autograd.engine import get_task_number, is_graph_retained
from .autograd.mode import MODE
from .autograd.saved.values import SavedTensor
from .autograd.traces import bindings as _profiler
from .futures import Future
from .ops.attention.backend_choice import SDPBackend as _SDPBackend
from .ops.interception.subclass import DisableTorchFunction, DisableTorchFunctionSubclass
from .ops.interception.subclass import EnableTorchFunction as _EnableTorchFunction
from .ops.interception.torch_dispatch import dispatches
from .ops.interception.torch_dispatch import without_dispatch as _without_dispatch
from .ops.interception.torch_function import STATE as _STATE
from .ops.interception.torch_function import _disabled_torch_function_impl, enter, leave
from .ops.linalg.matrix_checks import _LinAlgError
from .ops.registration.aten_schemas import find_overload, get_all_schemas, get_schemas
from .ops.registration.autograd_fallback import get_mode as _get_autograd_fallback_mode
from .ops.registration.autograd_fallback import set_mode as _set_autograd_fallback_mode
from .ops.registration.custom_operators import NAMESPACES, CustomPacket
from .ops.registration.dispatch_keys import DispatchKey, DispatchKeySet
from .ops.registration.dispatch_keys import (
    ExcludeDispatchKeyGuard, _AutoDispatchBelowAutograd, _ExcludeDispatchKeyGuard,
)
from .ops.registration.schema import Argument, InferredType
from .ops.registration.schema import Schema as FunctionSchema
from .ops.registration.schema import ScriptType as Type
from .ops.registration.schema import infer_type as _jit_try_infer_type
from .tensor import Tensor, dtype
from .tensor.absent import make_absent_getattr
from .tensor.devices import device, get_default_device
from .tensor.random.generator import Generator
from .tensor.size import Size

__all__ = [
    "Argument", "DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey",
    "DispatchKeySet", "ExcludeDispatchKeyGuard", "FunctionSchema", "Future", "Generator",
    "InferredType", "Size", "TensorBase", "Type",
    "_AutoDispatchBelowAutograd", "_EnableTorchFunction", "_ExcludeDispatchKeyGuard",
    "_LinAlgError", "_SDPBackend", "_disabled_torch_function_impl", "_get_autograd_fallback_mode",
    "_jit_try_infer_type", "_set_autograd_fallback_mode", "device", "dtype",
]

TensorBase = _TensorBase = Tensor
_TensorMeta = type(Tensor)
_TRACE = object()
has_cuda = has_mps = has_mkl = has_lapack = has_openmp = False
_has_cuda = _has_cudnn = _has_cusparselt = _has_eigen_sparse = _has_kleidiai = _has_magma = False
_has_mkldnn = _has_mkldnn_acl = _has_mps = _has_xpu = False


def _set_grad_enabled(mode: bool) -> None:
    """Switch gradients on or off; graphs call it between nodes."""
    MODE.grad = bool(mode)


class _WeakTensorRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor has been freed."""
        return self._reference() is None


def _current_graph_task_id() -> int:
    """The number of this thread's running backward pass; -1 outside of one."""
    number = get_task_number()
    return -1 if number is None else number


class _DisableTorchDispatch:
    """Disable `__torch_dispatch__` in this thread until the object is deleted."""

    def __init__(self) -> None:
        self._region = _without_dispatch()
        self._region.__enter__()

    def __del__(self) -> None:
        self._region.__exit__(None, None, None)


class _TorchFunctionState(enum.Enum):
    """Which overrides are consulted: modes and classes, modes only, or none."""

    ENABLED, SUBCLASSES_DISABLED, ALL_DISABLED = range(3)


def _get_torch_function_state() -> _TorchFunctionState:
    """Which overrides this thread consults."""
    if _STATE.nothing:
        return _TorchFunctionState.ALL_DISABLED
    off = _STATE.no_subclasses
    return _TorchFunctionState.SUBCLASSES_DISABLED if off else _TorchFunctionState.ENABLED


def _set_torch_function_state(state: _TorchFunctionState) -> None:
    """Set which overrides this thread consults."""
    _STATE.nothing = int(state is _TorchFunctionState.ALL_DISABLED)
    _STATE.no_subclasses = int(state is not _TorchFunctionState.ENABLED)


def _is_torch_function_enabled() -> bool:
    """Whether overrides of argument classes are consulted."""
    return not _STATE.no_subclasses


def _is_torch_function_all_disabled() -> bool:
    """Whether no override is consulted."""
    return bool(_STATE.nothing)


def _is_torch_function_mode_enabled() -> bool:
    """Whether a mode is active and consulted."""
    return bool(_STATE.modes) and not _STATE.nothing


def _len_torch_function_stack() -> int:
    """The number of active modes."""
    return len(_STATE.modes)


def _get_function_stack_at(index: int) -> Any:
    """The mode at this index; 0 is the first one entered."""
    return _STATE.modes[index]


def _push_on_torch_function_stack(mode: Any) -> None:
    """Enter a mode."""
    enter(mode)


def _pop_torch_function_stack() -> Any:
    """Leave the last mode and return it."""
    mode = _STATE.modes[-1]
    leave(mode)
    return mode


def _is_fwd_grad_enabled() -> bool:
    """Whether operators propagate tangents in this thread."""
    return forward_ad._is_fwd_grad_enabled()


def _set_fwd_grad_enabled(enabled: bool) -> None:
    """Set whether operators propagate tangents in this thread."""
    tangents.LEVELS.enabled = enabled


def _log_api_usage_once(event: str) -> None:
    """No-op: API usage is not logged."""


def _is_tracing() -> bool:
    """Whether torch.jit.trace is running the calling code."""
    return import_module("flambeau.jit").is_tracing()


def _get_tracing_state() -> object | None:
    """An object that represents the running trace; None without one."""
    scopes = sys.modules.get("flambeau.jit.trace_graph")
    current = None if scopes is None else scopes.Scopes.current
    return current or (_TRACE if _is_tracing() else None)


def _get_accelerator(check: Any = None) -> device:
    """Return the CPU."""
    return device("cpu")


def _get_default_device() -> str:
    """The default device's name."""
    return str(get_default_device())


def _get_privateuse1_backend_name() -> str:
    """PyTorch's name for an unregistered device."""
    return "privateuseone"


def _are_functorch_transforms_active() -> bool:
    """Return False."""
    return False


def _jit_set_profiling_executor(enabled: bool) -> bool:
    """No-op: there is no TorchScript."""
    return enabled


_jit_set_profiling_mode = _jit_override_can_fuse_on_cpu = _jit_set_profiling_executor
_jit_override_can_fuse_on_cpu_legacy = _jit_set_profiling_executor
_jit_override_can_fuse_on_gpu = _jit_set_texpr_fuser_enabled = _jit_set_profiling_executor
_jit_set_nvfuser_enabled = _jit_set_nvfuser_guard_mode = _jit_set_profiling_executor


_executor: dict[str, bool] = {"optimizes": True, "inlines": False}


def _get_graph_executor_optimize(new_setting: bool | None = None) -> bool:
    """Return whether TorchScript was asked to optimize, and ask anew if a setting is passed.

    Scripts run as Python either way.
    """
    before = _executor["optimizes"]
    if new_setting is not None:
        _executor["optimizes"] = new_setting
    return before


def _set_graph_executor_optimize(optimize: bool) -> None:
    """Ask TorchScript to optimize or not."""
    _executor["optimizes"] = optimize


def _jit_get_inline_everything_mode() -> bool:
    """Return whether `code` shall show the functions that a program calls in its own."""
    return _executor["inlines"]


def _jit_set_inline_everything_mode(should_inline: bool) -> None:
    """Ask for functions within the programs that call them."""
    _executor["inlines"] = should_inline


def _jit_clear_class_registry() -> None:
    """Forget the classes that were passed to torch.jit.script."""
    import_module(f"{__package__}.jit.scripted").SCRIPTED_CLASSES.clear()


def _jit_can_fuse_on_cpu() -> bool:
    """Return False: there is no TorchScript."""
    return False


_jit_can_fuse_on_gpu = _jit_can_fuse_on_cpu


def parse_schema(schema: str) -> FunctionSchema:
    """Parse a schema such as `ns::name(Tensor x) -> Tensor`."""
    space, _, rest = schema.partition("::")
    if "(" in space:
        return FunctionSchema("", schema)
    return FunctionSchema(space.strip(), rest)


def _jit_get_schemas_for_operator(name: str) -> list[FunctionSchema]:
    """Return the schemas of `aten::name`."""
    return list(get_schemas(name.removeprefix("aten::")).values())


def _jit_resolve_packet(name: str, *args: Any, **kwargs: Any) -> str:
    """Return the name of the overload of `aten::name` that a call runs. RuntimeError if none fits.
    """
    schema = find_overload(name.removeprefix("aten::"), args, kwargs)
    if schema is None:
        raise RuntimeError("Overloaded torch operator invoked from Python failed to match any "
                           f"schema:\n{name}() has none for these arguments")
    return schema.overload_name or "default"


def _jit_get_all_schemas() -> list[FunctionSchema]:
    """Return the schemas of all operators: aten's, and those that libraries define."""
    result = get_all_schemas()
    for space in NAMESPACES.values():
        for packet in space._packets.values():
            if isinstance(packet, CustomPacket):  # names of collectives have no schemas
                result += [operator._schema for operator in packet._operators.values()]
    return result


def _dispatch_isTensorSubclassLike(tensor: Tensor) -> bool:
    """Return whether a tensor's class has a `__torch_dispatch__`."""
    return dispatches(type(tensor))


class _Builtins:
    """A namespace of C++ functions: functions of a public namespace under other names."""

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
        """Parse the arguments of `to` into (device, dtype, non_blocking, memory_format)."""
        parsed: tuple[Any, Any, bool, Any] = \
            import_module(f"{__package__}.nn.conversion").parse_to(*args, **kwargs)
        return parsed

    @staticmethod
    def pad_sequence(*args: Any, **kwargs: Any) -> Tensor:
        """Call torch.nn.utils.rnn.pad_sequence."""
        padded: Tensor = import_module(f"{__package__}.nn.utils.rnn").pad_sequence(*args, **kwargs)
        return padded

    def __getattr__(self, name: str) -> Any:
        """Resolve padding functions, one per mode and number of axes."""
        mode, _, axes = name.partition("_pad")
        if mode in _PADDINGS and axes in ("1d", "2d", "3d"):
            return partial(self._padded, _PADDINGS[mode], int(axes[0]))
        if name.lstrip("_").startswith("upsample_"):
            resize = import_module(f"{__package__}.export.aten_functions").FUNCTIONS.get(name)
            if resize is not None:
                return partial(self._resample, resize)
        return super().__getattr__(name)

    def _padded(
        self, mode: str, axes: int, input: Tensor, padding: Any, *, out: Tensor | None = None
    ) -> Tensor:
        """Pad the input by reflection or replication; one number applies to all sides."""
        sides = [padding] * (2 * axes) if isinstance(padding, int) else list(padding)
        padded: Tensor = self.pad(input, sides, mode=mode)
        return padded if out is None else out.copy_(padded)

    def _resample(
        self, resize: Callable[..., Tensor], *args: Any, out: Tensor | None = None, **options: Any
    ) -> Tensor:
        """Return a resampled image, or write it into `out`, which takes its shape."""
        result = resize(*args, **options)
        return result if out is None else out.resize_(result.shape).copy_(result)

    def gelu_(self, input: Tensor, *, approximate: str = "none") -> Tensor:
        """gelu in place."""
        return input.copy_(self.gelu(input.clone(), approximate=approximate))


_functions = import_module(f"{__package__}.autograd._functions")
_nn = _Functions("nn.functional", renamed={"log_sigmoid": "logsigmoid", "nll_loss2d": "nll_loss"})
_linalg, _fft = _Builtins("linalg", "linalg_"), _Builtins("fft", "fft_")
_special = _Builtins("special", "special_")


class _Functorch(ModuleType):
    """torch._C._functorch, imported at its first use."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(f"{__package__}.func.functorch_bindings"), name)


_functorch = _Functorch(f"{__name__}._functorch")
# `from torch._C._profiler import ...`
sys.modules |= {f"{__name__}._profiler": _profiler, f"{__name__}._functorch": _functorch}


class _Autograd:
    """torch._C._autograd: queries about the profiler, saved tensors and the backward pass."""

    SavedTensor = SavedTensor
    _get_current_graph_task_keep_graph = staticmethod(is_graph_retained)
    _profiler_type = staticmethod(_profiler.find_profiler_type)
    DeviceType = _profiler.DeviceType

    @staticmethod
    def _saved_tensors_hooks_is_enabled() -> bool:
        return MODE.saved_hooks_disabled is None

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"torch._C._autograd.{name} is not implemented in flambeau")


_autograd = _Autograd()


_FROM_MODULES = {
    "CompilationUnit": "jit", "FileCheck": "testing", "ScriptFunction": "jit",
    "ScriptModule": "jit", "ScriptDict": "jit.script_containers",
    "ScriptList": "jit.script_containers", "_Await": "_awaits", "JITException": "jit:Error",
    "Graph": "jit.graphs.nodes", "Node": "jit.graphs.nodes", "Value": "jit.graphs.nodes",
    "Block": "jit.graphs.nodes", "Use": "jit.graphs.nodes", "_freeze_module": "jit.bindings",
    "_create_function_from_graph": "jit.graph_function:create_function_from_graph",
    "parse_ir": "jit.graphs.parsing:parse_ir",
}


def __getattr__(name: str) -> Any:
    """Look up names that PyTorch also exports from a module of Python's."""
    if name.startswith("_jit_pass_"):
        passes = import_module(".jit.bindings", __package__).PASSES
        return passes.get(name.removeprefix("_jit_pass_")) or _lacking(name)
    if name not in _FROM_MODULES:
        return _lacking(name)
    module, _, public = _FROM_MODULES[name].partition(":")
    return getattr(import_module(f".{module}", __package__), public or name)


_lacking = make_absent_getattr(__name__, (
    "PyTorchFileReader", "PyTorchFileWriter", "_distributed_c10d",
))
