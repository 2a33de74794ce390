"""torch.compiler: `compile`, and queries about compilation. The implementation is in driver/."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "disable", "get_default_backend",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset",
    "set_default_backend", "wrap_numpy",
]

_BUSY = "a function under torch.compiler.disable runs inside of the step"


# PyTorch's modes make no difference here: compilation always does what they request.
_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "now")
# "evaluate" is for the compiler's tests. PyTorch's backends other than "eager" mean "inductor".
_BACKENDS = ("inductor", "eager", "evaluate", "aot_eager", "aot_eager_decomp_partition",
             "cudagraphs", "openxla", "onnxrt", "tvm", "ts")


def compile(
    model: Callable[..., Any] | None = None, *, fullgraph: bool = False,
    dynamic: bool | None = None, backend: str | Callable[..., Any] | None = None,
    mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False,
) -> Any:
    """Return a function or module that runs as native code after a few calls.

    `model` may be a whole training step: zero_grad, forward, loss, backward and optimizer.step.
    Compilation happens in the background; mode="now" waits for it. If the step's Python must run at
    each call (it prints, counts or reads values), it runs, and programs compute the operators that
    it calls. A step that cannot be compiled stays eager, with one warning; with `fullgraph=True`
    that raises RuntimeError, with mode="now" both do. Each combination of shapes has its own
    program, at most 8 at a time, or 32 with `dynamic=True`. backend="eager" compiles nothing,
    "evaluate" runs the graph slowly in NumPy. In `options`, random="counter" generates random
    numbers where they are used, and they differ from PyTorch's; "mode" may be "now"; "settled"
    states that the code has run before, so that the first call is recorded; "follow" makes steps
    whose Python must run always (True) or never (False) followed, instead of measuring the cost;
    others are ignored.
    Raises RuntimeError for a `model` that is not callable and for an unknown mode or backend,
    ValueError for an unknown "random".

    >>> @torch.compile
    ... def double(x):
    ...     return 2 * x
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified "
                           "at the same time.")
    if model is None:
        return lambda function: compile(
            function, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, disable=disable,
        )
    if not callable(model):
        raise RuntimeError(f"torch.compile expects a callable, got {type(model).__name__}")
    backend = _default_backend if backend is None else backend
    mode = (options or {}).get("mode", mode)
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if isinstance(backend, str) and backend not in _BACKENDS:
        raise RuntimeError(f"Invalid backend: {backend!r}, see `torch.compiler.list_backends()` "
                           "for available backends")
    if disable:
        return model
    if backend == "eager":
        return _wrap_uncompiled(model)
    from .driver.optimized_module import compile_callable

    random = (options or {}).get("random", "generator")
    if random not in ("generator", "counter"):
        raise ValueError(f"torch.compile: options['random'] is 'generator' or 'counter', "
                         f"not {random!r}")
    return compile_callable(model, {"fullgraph": fullgraph, "backend": backend, "random": random,
                            "dynamic": dynamic, "settled": bool((options or {}).get("settled")),
                            "follow": (options or {}).get("follow"),
                            "mode": mode})


def _wrap_uncompiled(model: Any) -> Any:
    """Return the result for backend="eager": a module wrapped as with every backend, or the
    function itself."""
    from ..nn.module import Module
    from .driver.optimized_module import OptimizedModule

    return OptimizedModule(model, None) if isinstance(model, Module) else model


def is_compiling() -> bool:
    """Return whether the calling code is being recorded for compilation, or exported.

    >>> torch.compiler.is_compiling()
    False
    """
    capture = sys.modules.get("flambeau.compiler.capture.capture")
    return capture is not None and capture.is_recording() or is_exporting()


def is_dynamo_compiling() -> bool:
    """Return whether the calling code is being recorded for compilation, or exported.

    >>> torch.compiler.is_dynamo_compiling()
    False
    """
    return is_compiling()


def is_exporting() -> bool:
    """Return whether the calling code is being exported by torch.export.

    >>> torch.compiler.is_exporting()
    False
    """
    activity = sys.modules.get("flambeau._higher_order_ops.active_export")
    return activity is not None and activity.is_exporting()


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """Return a function that is never compiled: a step that calls it stays eager.

    >>> @torch.compiler.disable
    ... def logged(x):
    ...     print("eager:", x)
    ...     return x
    >>> logged(torch.ones(1))
    eager: tensor([1.])
    tensor([1.])
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)

    @functools.wraps(fn)
    def eager(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            from .capture.capture import note

            note(_BUSY if reason is None else f"{_BUSY} ({reason})")
        patching = sys.modules.get("flambeau.ops.interception.code_patching")
        if patching is not None:
            patching.end_followed_call()
        return fn(*args, **kwargs)

    return eager


def allow_in_graph(fn: Any) -> Any:
    """Return the function unchanged: calls of operators are always recorded.

    >>> torch.compiler.allow_in_graph(abs) is abs
    True
    """
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Return the function unchanged.

    >>> torch.compiler.assume_constant_result(abs) is abs
    True
    """
    return fn


def reset() -> None:
    """Discard all programs: compiled functions start over.

    >>> torch.compiler.reset()
    """
    driver = sys.modules.get("flambeau.compiler.driver.compiled_function")
    if driver is not None:
        driver.reset()


_default_backend: str | Callable[..., Any] = "inductor"


def set_default_backend(backend: str | Callable[..., Any] | None) -> None:
    """Set the backend that `compile` uses by default; None resets it to "inductor".

    >>> torch.compiler.set_default_backend("eager")
    >>> torch.compiler.get_default_backend()
    'eager'
    >>> torch.compiler.set_default_backend(None)
    """
    global _default_backend
    _default_backend = "inductor" if backend is None else backend


def get_default_backend() -> str | Callable[..., Any]:
    """Return the backend that `compile` uses by default.

    >>> torch.compiler.get_default_backend()
    'inductor'
    """
    return _default_backend


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tensors that calls `fn` with NumPy arrays and returns tensors.

    >>> import numpy as np
    >>> torch.compiler.wrap_numpy(np.sin)(torch.zeros(2, dtype=torch.float64))
    tensor([0., 0.], dtype=torch.float64)
    """
    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        import numpy as np

        from ..ops import as_tensor
        from ..tensor import Tensor
        from ..tensor.tree import map_leaves_of

        args, kwargs = map_leaves_of(Tensor, Tensor.numpy, (args, kwargs))
        return map_leaves_of(np.ndarray, as_tensor, fn(*args, **kwargs))

    return wrapped


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Return the only backend, under PyTorch's name for it.

    >>> torch.compiler.list_backends()
    ['inductor']
    """
    return ["inductor"]
