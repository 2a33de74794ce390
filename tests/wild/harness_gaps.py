"""What PyTorch's test harness needs beside its own files and flambeau lacks: private names.

Each entry is a gap of flambeau's; the shorter this file, the better.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import sys
import types
from typing import Any

from stand_ins import StandIn, StandInModule, named

# Modules of the installed PyTorch that the harness consists of; read as modules of flambeau.
FROM_PYTORCH = (
    "testing._internal", "testing._pt_comparison", "testing._utils", "utils._import_utils",
    "utils._dtype_abbrs", "_vendor", "autograd._pt_gradcheck",
)
FILES = {
    "testing._pt_comparison": "testing/_comparison.py",
    "autograd._pt_gradcheck": "autograd/gradcheck.py",
}

# Modules that only have to be importable.
STAND_INS = frozenset(
    """
_export _export.wrappers _functorch.aot_autograd _functorch.python_key
_higher_order_ops.flex_attention
_higher_order_ops.cond _higher_order_ops.map _higher_order_ops.inline_asm_elementwise
_higher_order_ops.invoke_subgraph
_higher_order_ops.register_hook _logging _logging._internal _logging.scribe _prims _prims_common
_prims_common.wrappers _refs _refs._conversions _refs.fft _refs.linalg _refs.nn
_refs.nn.functional _refs.special _utils_internal _vmap_internals ao ao.nn ao.nn.quantized
ao.quantization backends.xnnpack jit._logging jit.frontend jit.quantized utils._device
utils._foreach_utils utils._mode_utils utils._triton utils.cpp_extension
""".split()
)
# Parts of the harness that test what flambeau does not have.
LEFT_OUT = frozenset("testing._internal." + name for name in ("hop_db",))
# Parts of it that flambeau has itself.
OWN = "testing._internal.optests"

# What PyTorch's hooks check of each function that is compiled, for those that are saved. Objects
# of the program's own classes are none of the saved copy's.
_SAVED_COPY = """
            def is_plain(value):
                if isinstance(value, (list, tuple)):
                    return all(map(is_plain, value))
                if isinstance(value, dict):
                    return all(map(is_plain, value.values()))
                return value is None or isinstance(
                    value, (torch.Tensor, int, float, complex, str, torch.device, torch.dtype))

            if not capture_output and not isinstance(script, str):
                copied = self.getExportImportCopy(scripted_fn)
                if is_plain(list(recording_inputs)) and is_plain(script_outputs):
                    self.assertEqual(copied(*recording_inputs), script_outputs, atol=atol,
                                     rtol=rtol)
            return scripted_fn

    def checkTrace("""

# By module: (text, what stands there instead).
CHANGES = {
    "testing._internal.common_utils": [
        ("from torch.testing._comparison import", "from torch.testing._pt_comparison import"),
        ("self._check_invariants = torch.sparse.check_sparse_tensor_invariants.is_enabled()",
         "self._check_invariants = None"),
        ("torch.sparse.check_sparse_tensor_invariants.enable()", "pass"),
        ("torch.sparse.check_sparse_tensor_invariants.disable()", "pass"),
    ],
    "testing._internal.common_device_type": [
        ('if os.environ.get("OPINFO_RESTRICT_TO_DSL"):\n                return', "return"),
    ],
    "testing._internal.jit_utils": [
        ("from torch.autograd.function import _nested_map", """
def _nested_map(condition, fn, condition_msg=None):
    def each(value):
        if condition(value):
            return fn(value)
        if isinstance(value, (list, tuple)):
            return type(value)(map(each, value))
        if isinstance(value, dict):
            return {key: each(part) for key, part in value.items()}
        return value
    return each
"""),
        ("    torch._C._jit_clear_class_registry()\n", "    return\n"),
        ("torch._C._jit_set_emit_hooks(", "print if True else ("),
        ("torch.jit.TracerWarning.ignore_lib_warnings()", "pass"),
        ("from torch.onnx import OperatorExportTypes\n", ""),
        ("            return scripted_fn\n\n    def checkTrace(", _SAVED_COPY),
    ],
    "testing._internal.common_nn": [
        ("from torch.autograd.gradcheck import", "from torch.autograd._pt_gradcheck import"),
    ],
    "testing._internal.common_modules": [
        ("namespace.__name__.replace('torch.', '')",
         "namespace.__name__.replace('torch.', '').replace('flambeau.', '')"),
    ],
    "testing._internal.common_methods_invocations": [
        ("torch.cuda.jiterator._create_jit_fn(", "(lambda *a, **k: torch.sin)("),
        ("torch.cuda.jiterator._create_multi_output_jit_fn(", "(lambda *a, **k: torch.sin)("),
    ],
}


def _fill(module: Any, **names: Any) -> None:
    for name, value in names.items():
        try:
            is_lacking = type(getattr(module, name)).__name__ == "Lacking"
        except (AttributeError, NotImplementedError):
            is_lacking = True
        if is_lacking:
            setattr(module, name, value)


class _Unchanged(contextlib.ContextDecorator):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> _Unchanged:
        return self

    def __exit__(self, *error: Any) -> bool:
        return False


class _TestCases(types.ModuleType):
    """torch._dynamo.test_case, whose classes are the harness's own."""

    def __getattr__(self, name: str) -> Any:
        if name not in ("TestCase", "run_tests"):
            raise AttributeError(name)
        return getattr(importlib.import_module("torch.testing._internal.common_utils"), name)


def fill(torch: Any) -> None:
    """Gives flambeau the private names that the harness asks for when it is imported."""
    for name in ("_inductor.utils", "_C._functorch", "_C._distributed_c10d"):
        parent, _, last = name.rpartition(".")
        module = StandInModule(f"flambeau.{name}")
        for package in ("flambeau", "torch"):
            sys.modules.setdefault(f"{package}.{name}", module)
        _fill(importlib.import_module(f"flambeau.{parent}"), **{last: module})
    for module in ("cpu", "profiler", "compiler", "types", "_inductor", "_utils", "backends",
                   "_prims_common", "_logging.scribe", "testing._utils", "utils._foreach_utils",
                   "utils._mode_utils"):
        importlib.import_module(f"torch.{module}")
    for package in ("flambeau", "torch"):
        name = f"{package}._dynamo.test_case"
        sys.modules[name] = importlib.import_module("torch._dynamo").test_case = _TestCases(name)
    for fill_part in (_fill_transforms, _fill_checks, _fill_fallback, _fill_processor):
        fill_part(torch)
    importlib.import_module("torch._subclasses").CrossRefFakeMode = object
    torch.ops.load_library = lambda path: None  # of classes for TorchScript's tests, in C++
    _evaluate_annotations(torch.nn.functional, torch)
    _fill(torch, _disable_dynamo=lambda fn=None, recursive=True: fn or (lambda f: f),
          _nnpack_available=lambda: False)
    _fill(torch._C, _DisableFuncTorch=contextlib.nullcontext,
          ScriptMethod=type("ScriptMethod", (), {}), ScriptFunction=type("ScriptFunction", (), {}),
          ScriptDict=StandIn, ScriptList=StandIn, TensorType=StandIn)
    _fill(torch.profiler, itt=types.SimpleNamespace(is_available=lambda: False))
    _fill(torch.compiler, set_stance=lambda *args, **kwargs: None)
    _fill(torch.types, _TensorOrOptionalTensors=object)
    _fill(torch.backends, disable_global_flags=lambda: None)
    _fill(torch._utils, _is_privateuse1_backend_available=lambda: False)
    sys.modules["torch.utils._cxx_pytree"] = torch.utils._pytree  # the one there is
    torch.utils._cxx_pytree = torch.utils._pytree
    torch._inductor.config.patch = _Unchanged
    torch._logging.scribe.open_source_signpost = lambda *args, **kwargs: None
    _fill(torch.utils._mode_utils, no_dispatch=contextlib.nullcontext)
    torch.utils._foreach_utils._get_foreach_kernels_supported_devices = lambda: ["cuda"]
    torch.utils._foreach_utils._get_fused_kernels_supported_devices = lambda: ["cuda", "cpu"]
    torch._prims_common.dtype_to_type = lambda dtype: (
        bool if dtype == torch.bool else complex if dtype.is_complex
        else float if dtype.is_floating_point else int
    )


def _evaluate_annotations(module: Any, torch: Any) -> None:
    """Tests find functions of tensors by their annotations, which are texts in flambeau."""
    for name, function in list(vars(module).items()):
        if isinstance(function, types.FunctionType) and not name.startswith("_"):
            signature = inspect.signature(function)
            function.__signature__ = signature.replace(parameters=[
                p.replace(annotation=torch.Tensor) if p.annotation in ("Tensor", "Array") else p
                for p in signature.parameters.values()
            ])


def _fill_transforms(torch: Any) -> None:
    """What the top-level package functorch takes from torch._functorch, and is not there."""
    for module in ("apis", "vmap"):
        of_functorch = importlib.import_module(f"torch._functorch.{module}")
        for name in ("restore_vmap", "_add_batch_dim"):
            setattr(of_functorch, name, named(f"torch._functorch.{name}"))
    transforms = importlib.import_module("torch._functorch.eager_transforms")
    _fill(transforms, functionalize=named("torch.func.functionalize"))
    importlib.import_module("torch._functorch.deprecated")


def _dtypes(torch: Any) -> list:
    return [value for value in vars(torch).values() if isinstance(value, torch.dtype)]


def _fill_checks(torch: Any) -> None:
    """What checks of custom operators ask for besides them."""
    importlib.import_module(
        "torch._export.wrappers"
    ).mark_subclass_constructor_exportable_experimental = lambda function: function
    torch._C._get_all_dtypes = lambda: _dtypes(torch)
    torch._C._profiler.gather_traceback = lambda **options: None
    torch._C._profiler.symbolize_tracebacks = lambda tracebacks: [[] for _ in tracebacks]
    importlib.import_module("torch._utils_internal").get_file_path_2 = os.path.join


def _fill_fallback(torch: Any) -> None:
    """Flags of vmap's slow path: here every function goes an example at a time."""
    for module, name, setter in (
        (torch._C, "_debug_only_are_vmap_fallback_warnings_enabled",
         "_debug_only_display_vmap_fallback_warnings"),
        (torch._C._functorch, "_is_vmap_fallback_enabled", "_set_vmap_fallback_enabled"),
    ):
        flag = [True]
        setattr(module, name, functools.partial(flag.__getitem__, 0))
        setattr(module, setter, functools.partial(flag.__setitem__, 0))


def _fill_processor(torch: Any) -> None:
    """What the harness asks about the processor and the libraries of a build."""

    def no() -> bool:
        return False

    _fill(torch.cpu, get_capabilities=dict, _is_avx2_supported=lambda: True,
          **dict.fromkeys(("_is_avx512_supported", "_is_vnni_supported", "_is_amx_tile_supported",
                           "_is_avx512_vnni_supported"), no))
    torch._C.has_lapack = True  # there is no LAPACK build, and linalg is there
    _fill(torch._C, has_spectral=True, _get_cpu_capability=lambda: "AVX2", _has_mkldnn=False,
          _has_mkl=False)
