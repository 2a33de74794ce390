"""torch.compiler's names, and the compiler behind `flambeau.compile` (pipeline.py: its stages)."""

from __future__ import annotations

from ..tensor.absent import make_absent_getattr
from .api import (
    allow_in_graph, assume_constant_result, compile, disable, get_default_backend, is_compiling,
    is_dynamo_compiling, is_exporting, list_backends, reset, set_default_backend, wrap_numpy,
)
from .driver.stance import set_stance
from .guard_filters import (
    cudagraph_mark_step_begin, keep_portable_guards_unsafe, keep_tensor_guards_unsafe,
    nested_compile_region, set_enable_guard_collectives, skip_all_guards_unsafe,
    skip_guard_on_all_nn_modules_unsafe, skip_guard_on_globals_unsafe,
    skip_guard_on_inbuilt_nn_modules_unsafe, substitute_in_graph,
)

__getattr__ = make_absent_getattr(__name__)
__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting",
    "keep_portable_guards_unsafe", "keep_tensor_guards_unsafe", "list_backends",
    "nested_compile_region", "reset", "set_default_backend", "set_enable_guard_collectives",
    "set_stance", "skip_all_guards_unsafe", "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe",
    "substitute_in_graph", "wrap_numpy",
]
