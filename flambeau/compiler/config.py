"""torch.compiler.config: settings of compilation, most of them those of torch._dynamo.config."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["job_id"]

job_id: str | None = None
cache_key_tag = dynamic_sources = dynamic_values = unbacked_sources = ""
pgo_extra_read_key: str | None = None
pgo_extra_write_key: str | None = None
force_disable_caches = force_cudagraph_gc = False

_SHARED = frozenset("""
    accumulated_recompile_limit allow_unspec_int_on_nn_module assume_static_by_default
    automatic_dynamic_shapes capture_dynamic_output_shape_ops capture_scalar_outputs dynamic_shapes
    enable_cpp_symbolic_shape_guards fail_on_recompile_limit_hit log_file_name recompile_limit
    reorderable_logging_functions skip_tensor_guards_with_matching_dict_tags verbose wrap_top_frame
""".split())


def _get_tracer_settings() -> Any:
    return import_module(__name__.replace("compiler.config", "_dynamo.config"))


class _Settings(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name in _SHARED:
            return getattr(_get_tracer_settings(), name)
        raise AttributeError(f"{self.__name__}.{name} does not exist")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _SHARED:
            setattr(_get_tracer_settings(), name, value)
        else:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Settings
