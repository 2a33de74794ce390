"""torch.backends: settings of libraries that flambeau does not use; they are only stored."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

from ..native.foundation.user_frames import warn
from ..ops.attention.backend_choice import AttentionSettings, SDPBackend
from ..tensor.absent import answer_for_absent
from .fp32_precision import OperatorPrecision, get_precision, give_precision, set_precision

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "cusparselt",
    "disable_global_flags",
    "flags_frozen",
    "mha",
    "mkl",
    "mkldnn",
    "mps",
    "nnpack",
    "openmp",
    "opt_einsum",
    "quantized",
    "xeon",
]


_FLAGS = SimpleNamespace(is_frozen=False)


def flags_frozen() -> bool:
    """Return whether settings were fixed by `disable_global_flags`."""
    return _FLAGS.is_frozen


def disable_global_flags() -> None:
    """Mark the settings as fixed, which `flags_frozen` reports."""
    _FLAGS.is_frozen = True


@contextlib.contextmanager
def flags(fp32_precision: str = "none") -> Iterator[None]:
    """Context with this precision of float32 on other devices, without effect."""
    before = get_precision("generic", "all")
    set_precision("generic", "all", fp32_precision)
    try:
        yield
    finally:
        set_precision("generic", "all", before)


def _backend(name: str, available: bool | None = False, **settings: Any) -> Any:
    """Return a module `torch.backends.NAME` with these settings and `flags`, a context to set them.
    """
    module = ModuleType(f"{__name__}.{name}", f"Settings of {name}, without effect.")
    module.__dict__.update(settings)
    if available is not None:
        module.__dict__["is_available"] = lambda: available

    @contextlib.contextmanager
    def flags(**values: Any) -> Iterator[None]:
        names = {*settings, *(name for name in ("fp32_precision",) if hasattr(module, name))}
        unknown = values.keys() - names
        if unknown:
            raise TypeError(f"torch.backends.{name}.flags() got an unexpected keyword argument "
                            f"{min(unknown)!r}")
        before = {key: getattr(module, key) for key in values}
        for key, value in values.items():
            setattr(module, key, value)
        try:
            yield
        finally:
            for key, value in before.items():
                setattr(module, key, value)

    module.__dict__["flags"] = flags
    answer_for_absent(module)
    module.__path__ = []  # a package, so that PyTorch's modules below it can be imported
    sys.modules[module.__name__] = module
    return module


cpu = _backend("cpu", None)
cpu.get_cpu_capability = lambda: "DEFAULT"
cudnn = _backend(
    "cudnn", enabled=True, benchmark=False, benchmark_limit=10, deterministic=False,
    allow_tf32=True, conv=OperatorPrecision("cuda", "conv"), rnn=OperatorPrecision("cuda", "rnn"),
)
cudnn.version = lambda: None
cudnn.is_acceptable = lambda tensor: False
cuda = _backend("cuda", None)
cuda.is_built = lambda: False


def _preference_setter(kind: str, names: str) -> Callable[..., Enum]:
    """Return the function that sets, or returns, the preferred GPU library; it is only stored."""
    make: Any = Enum
    choices: Any = make(f"_{kind}Backend", names.split(), start=0)
    by_name = {choice.name.lower(): choice for choice in choices}
    chosen = next(iter(choices))

    def preferred(backend: Any = None) -> Enum:
        nonlocal chosen
        if isinstance(backend, str) and backend.lower() not in by_name:
            raise RuntimeError(f"Unknown input value. Choose from: {', '.join(by_name)}.")
        if backend is not None:
            chosen = by_name[backend.lower()] if isinstance(backend, str) else backend
        return chosen

    return preferred


cuda.preferred_blas_library = _preference_setter("Blas", "Default Cublas Cublaslt Ck")
cuda.preferred_linalg_library = _preference_setter("Linalg", "Default Cusolver Magma")
cuda.preferred_rocm_fa_library = _preference_setter("ROCmFA", "Default AOTriton Ck")
cuda.matmul = OperatorPrecision(
    "cuda", "matmul", allow_tf32=False, allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True, allow_fp16_accumulation=False,
)
cuda.SDPBackend = SDPBackend


def _switch(kind: str) -> None:
    setattr(cuda, f"{kind}_sdp_enabled", lambda: AttentionSettings.allowed[kind])
    setattr(cuda, f"enable_{kind}_sdp", lambda enabled: AttentionSettings.allow(**{kind: enabled}))


for _kind in AttentionSettings.allowed:
    _switch(_kind)


@contextlib.contextmanager
def _sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[dict[str, bool]]:
    """Context with these attention kernel settings; predates nn.attention.sdpa_kernel."""
    warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager "
        "will be removed. Please see `torch.nn.attention.sdpa_kernel()` for the new context "
        "manager, with updated signature.",
        FutureWarning,
    )
    before = AttentionSettings.allowed
    AttentionSettings.allow(flash=enable_flash, math=enable_math, cudnn=enable_cudnn,
                            mem_efficient=enable_mem_efficient)
    try:
        yield {}
    finally:
        AttentionSettings.allowed = before


cuda.sdp_kernel = _sdp_kernel


class _QuantizedSettings(ModuleType):
    """The engine for products of 8-bit integers: all names select the same arithmetic, FBGEMM's."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Store a setting. Raises RuntimeError for an unknown engine."""
        if name == "engine" and value not in self.supported_engines:
            raise RuntimeError(f"{value} is not a valid value for quantized engine")
        super().__setattr__(name, value)


mkl = _backend("mkl")
mkldnn = _backend(
    "mkldnn", enabled=True, deterministic=False, allow_tf32=True,
    matmul=OperatorPrecision("mkldnn", "matmul"), conv=OperatorPrecision("mkldnn", "conv"),
    rnn=OperatorPrecision("mkldnn", "rnn"),
)
mps = _backend("mps")
mps.is_built = lambda: False
mps.is_macos13_or_newer = mps.is_macos_or_newer = lambda *version: False
openmp = _backend("openmp")
nnpack = _backend("nnpack")
cusparselt = _backend("cusparselt")
cusparselt.version = lambda: None
mha = _backend("mha", None)
mha._fastpath = True
mha.get_fastpath_enabled = lambda: mha._fastpath
mha.set_fastpath_enabled = lambda value: setattr(mha, "_fastpath", value)
opt_einsum = _backend("opt_einsum", enabled=False, strategy=None)
quantized = _backend("quantized", None, engine="x86",
                     supported_engines=["qnnpack", "onednn", "x86", "fbgemm"])
quantized.__class__ = _QuantizedSettings
xeon = _backend("xeon", None)

give_precision(__name__, "generic")
give_precision(cudnn.__name__, "cuda")
give_precision(mkldnn.__name__, "generic")  # as PyTorch has it: oneDNN's setting is that of all
