"""torch.compiler: `compile`, and what programs ask about compilation. The work is in api.py."""

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


# What PyTorch's modes ask of its compiler is done in each.
_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "now")
# "evaluate" is for the compiler's own tests; the rest are PyTorch's, which there is no other for.
_BACKENDS = ("inductor", "eager", "evaluate", "aot_eager", "aot_eager_decomp_partition",
             "cudagraphs", "openxla", "onnxrt", "tvm", "ts")


def compile(
    model: Callable[..., Any] | None = None, *, fullgraph: bool = False,
    dynamic: bool | None = None, backend: str | Callable[..., Any] | None = None,
    mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False,
) -> Any:
    """A function or module that runs as native code once it has been called a few times.

    `model` may be a whole training step, with zero_grad, forward, loss, backward and
    optimizer.step. Compilation happens beside the program; mode="now" waits for it. Where the
    step's Python must run on each call (it prints, counts, looks at values), it does, and programs
    compute what its operators list. A step that cannot be compiled stays as it is, with one
    warning; `fullgraph=True` makes a RuntimeError of both. Each combination of shapes has a program
    of its own, of at most 8 at a time, with `dynamic=True` 32. backend="eager" compiles nothing,
    "evaluate" runs the graph slowly in NumPy. Of `options`, "random" may be "counter": random
    numbers are then made where they are used, and are not PyTorch's; "mode" may be "now"; "settled"
    says that the code has run before, so that its first call is recorded already; "follow" says
    that steps whose Python has to run are always followed (True), or never (False), where a trial
    of what that costs would decide; others are accepted.
    Raises RuntimeError for what is not callable and for another mode or backend, ValueError for
    another "random".

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
        return _uncompiled(model)
    from .driver.optimized_module import compile_callable

    random = (options or {}).get("random", "generator")
    if random not in ("generator", "counter"):
        raise ValueError(f"torch.compile: options['random'] is 'generator' or 'counter', "
                         f"not {random!r}")
    return compile_callable(model, {"fullgraph": fullgraph, "backend": backend, "random": random,
                            "dynamic": dynamic, "settled": bool((options or {}).get("settled")),
                            "follow": (options or {}).get("follow"),
                            "mode": mode})


def _uncompiled(model: Any) -> Any:
    """What backend="eager" makes: a module in a module, as with every backend; functions stay."""
    from ..nn.module import Module
    from .driver.optimized_module import OptimizedModule

    return OptimizedModule(model, None) if isinstance(model, Module) else model


def is_compiling() -> bool:
    """Whether the code that asks is being recorded for compilation, or exported.

    >>> torch.compiler.is_compiling()
    False
    """
    capture = sys.modules.get("flambeau.compiler.capture.capture")
    return capture is not None and capture.busy() or is_exporting()


def is_dynamo_compiling() -> bool:
    """Whether the code that asks is being recorded for compilation, or exported.

    >>> torch.compiler.is_dynamo_compiling()
    False
    """
    return is_compiling()


def is_exporting() -> bool:
    """Whether the code that asks is being exported by torch.export.

    >>> torch.compiler.is_exporting()
    False
    """
    activity = sys.modules.get("flambeau._higher_order_ops.active_export")
    return activity is not None and activity.is_exporting()


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """A function that is never compiled: a step that calls it stays eager.

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
    """The function as it is: everything that is made of operators is recorded.

    >>> torch.compiler.allow_in_graph(abs) is abs
    True
    """
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function as it is.

    >>> torch.compiler.assume_constant_result(abs) is abs
    True
    """
    return fn


def reset() -> None:
    """Forget all programs: compiled functions start anew.

    >>> torch.compiler.reset()
    """
    api = sys.modules.get("flambeau.compiler.driver.compiled_function")
    if api is not None:
        api.reset()


_default_backend: str | Callable[..., Any] = "inductor"


def set_default_backend(backend: str | Callable[..., Any] | None) -> None:
    """Set the backend of calls of `compile` that name none; None resets it to "inductor".

    >>> torch.compiler.set_default_backend("eager")
    >>> torch.compiler.get_default_backend()
    'eager'
    >>> torch.compiler.set_default_backend(None)
    """
    global _default_backend
    _default_backend = "inductor" if backend is None else backend


def get_default_backend() -> str | Callable[..., Any]:
    """Return the backend of calls of `compile` that name none.

    >>> torch.compiler.get_default_backend()
    'inductor'
    """
    return _default_backend


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors that calls `fn` with NumPy arrays; its arrays come back as tensors.

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
    """The one there is, under the name of PyTorch's.

    >>> torch.compiler.list_backends()
    ['inductor']
    """
    return ["inductor"]
