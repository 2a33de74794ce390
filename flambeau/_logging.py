"""torch._logging: settings of PyTorch's compiler logs; flambeau's compiler has `explain()` instead.

Settings are checked and have no effect.
"""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .tensor.absent import make_absent_getattr

__all__ = ["LazyString", "getArtifactLogger", "hide_warnings", "set_logs", "warning_once"]

_LOGS = ("all dynamo aot autograd inductor dynamic distributed c10d ddp fsdp dtensor onnx export "
         "cudagraphs sym_node hierarchical_compile caching").split()
_ARTIFACTS = (
    "bytecode aot_graphs aot_joint_graph ddp_graphs graph graph_code graph_code_verbose "
    "graph_breaks side_effects graph_sizes guards recompiles recompiles_verbose trace_source "
    "trace_call trace_bytecode output_code kernel_code schedule perf_hints pre_grad_graphs "
    "post_grad_graphs ir_pre_fusion ir_post_fusion onnx_diagnostics fusion overlap "
    "compiled_autograd compiled_autograd_verbose cudagraph_static_inputs benchmarking autotuning "
    "incremental graph_region_expansion inductor_metrics compute_dependencies").split()


def set_logs(*, modules: dict[str, int | bool] | None = None, **logs: int | bool | None) -> None:
    """Check and ignore settings of the compiler's logs.

    Raises TypeError for an unknown name, ValueError for a value that is not a level or bool.

    >>> import logging
    >>> torch._logging.set_logs(dynamo=logging.INFO, graph_breaks=True)
    """
    for name, value in logs.items():
        if name not in _LOGS and name not in _ARTIFACTS:
            raise TypeError(f"set_logs() got an unexpected keyword argument '{name}'")
        if name in _ARTIFACTS and value not in (None, True, False):
            raise ValueError(f"Expected bool to enable artifact {name}, received {value}")
        if name in _LOGS and value is not None and value not in logging._levelToName:
            levels = ",".join(map(str, logging._levelToName))
            raise ValueError(f"Unrecognized log level for log {name}: {value}, valid level values "
                             f"are: {levels}")


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:
    """Return the logger of an artifact of a module.

    Raises ValueError for an unknown artifact.
    """
    if artifact_name not in _ARTIFACTS:
        raise ValueError(f"Artifact name: {artifact_name!r} not registered,please call "
                         f"register_artifact({artifact_name!r}) in "
                         "torch._logging.registrations.")
    return logging.getLogger(f"{module_qname}.__{artifact_name}")


@functools.cache
def warning_once(logger: logging.Logger, *args: Any, **kwargs: Any) -> None:
    """Log a warning; later calls with the same logger and arguments do nothing."""
    logger.warning(*args, **kwargs)


@contextmanager
def hide_warnings(filter_fn: Callable[..., bool] = lambda *_: True) -> Iterator[None]:
    """Context that hides warnings for which `filter_fn` returns True."""
    shown = warnings.showwarning

    def show(message: Any, category: Any, filename: str, lineno: int, *rest: Any) -> None:
        if not filter_fn(message, category, filename, lineno, *rest):
            shown(message, category, filename, lineno, *rest)

    warnings.showwarning = show  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.showwarning = shown


class LazyString:
    """Text computed only when a logger formats it."""

    def __init__(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self) -> str:
        return str(self.func(*self.args, **self.kwargs))


__getattr__ = make_absent_getattr(__name__)
