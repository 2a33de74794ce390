"""Grad modes: whether operators are recorded. The state is per thread.

`no_grad`, `enable_grad`, `set_grad_enabled` and `inference_mode` are context managers and
decorators, which also work on generator functions.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar, overload

from ..native.foundation.context_wrappers import note_wrapper
from ..native.foundation.user_frames import warn
from ..tensor.ambient import note_change
from ..tensor.tensor import INFERENCE, creation

F = TypeVar("F", bound=Callable)

TRANSFORM_OBSERVERS: list[Callable[[], None]] = []  # called when a transform begins


class _Mode(threading.local):
    """This thread's modes. `grad` is read by every operator with an input that requires grad."""

    grad = True
    inference = False
    task: Any = None  # the backward pass that this thread is running
    saved_hooks: tuple = ()
    saved_hooks_disabled: str | None = None
    anomaly = False
    check_nan = True
    multithreading = True
    exporting = False  # whether an export records the calling code, and no tape does
    differentiating = 0  # the number of the innermost transform that takes gradients
    transforms = 0  # of torch.func and vmap, around the calling code
    below_autograd = 0  # regions of _AutoDispatchBelowAutograd, around the calling code


MODE = creation.mode = _Mode()


class _Special:
    """Number of active saved-tensor hooks and anomaly modes in all threads. When it is 0, the
    usual case, recording skips looking for them."""

    __slots__ = ("count",)

    count: int


SPECIAL = _Special()
SPECIAL.count = 0


class transforming:
    """Context of a function that a transform of torch.func runs: backward() raises in it."""

    __slots__ = ()

    def __enter__(self) -> None:
        for observe in TRANSFORM_OBSERVERS:
            observe()
        MODE.transforms += 1

    def __exit__(self, *error: object) -> None:
        MODE.transforms -= 1


_NO_SAVED_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an "
    "issue with your use case."
)


@contextmanager
def differentiating() -> Iterator[None]:
    """Context of a function of which a transform takes gradients: as `transforming`, and
    saved-tensor hooks raise RuntimeError."""
    if MODE.saved_hooks:
        raise RuntimeError(_NO_SAVED_HOOKS)
    before = MODE.saved_hooks_disabled, MODE.differentiating
    MODE.saved_hooks_disabled = _NO_SAVED_HOOKS
    try:
        with transforming():
            MODE.differentiating = MODE.transforms
            yield
    finally:
        MODE.saved_hooks_disabled, MODE.differentiating = before


@contextmanager
def below_transforms(levels: int) -> Iterator[None]:
    """Context of a custom function's own code, which runs below the innermost `levels` transforms
    around its call."""
    before, MODE.transforms = MODE.transforms, MODE.transforms - levels
    try:
        yield
    finally:
        MODE.transforms = before


@contextmanager
def exporting_without_tape() -> Iterator[None]:
    """Context of a program that an export records: custom functions and module hooks add no node
    to the tape, and a custom function's `forward` runs in its caller's grad mode."""
    before, MODE.exporting = MODE.exporting, True
    try:
        yield
    finally:
        MODE.exporting = before


def set_saved_hooks(hooks: tuple) -> None:
    """Set this thread's pairs of saved-tensor hooks, innermost last."""
    entered = len(hooks) - len(MODE.saved_hooks)
    MODE.saved_hooks = hooks
    SPECIAL.count += entered
    note_change(observers=entered)


def is_grad_enabled() -> bool:
    """Return whether this thread records operators.

    >>> with torch.no_grad():
    ...     torch.is_grad_enabled()
    False
    """
    return MODE.grad


def is_inference_mode_enabled() -> bool:
    """Return whether this thread is inside `inference_mode`.

    >>> with torch.inference_mode():
    ...     torch.is_inference_mode_enabled()
    True
    """
    return MODE.inference


class _Switch:
    """Base of the modes: a context manager, and a decorator of functions and generators."""

    previous: Any

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *exception: object) -> None:
        MODE.grad = self.previous

    def clone(self) -> _Switch:
        """Return a fresh switch of the same mode, so decorated functions can recurse."""
        return type(self)()

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            warn("Decorating classes is deprecated and will be disabled in future versions. You "
                 "should only decorate functions or methods. To preserve the current behavior of "
                 "class decoration, you can directly decorate the `__init__` method and nothing "
                 "else.", FutureWarning)
            decorated: Any = self._decorate_class(function)
        elif inspect.isgeneratorfunction(function):
            decorated = self._decorate_generator(function)
        else:
            decorated = self._decorate_function(function)
        return decorated

    def _decorate_function(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return note_wrapper(decorated, self, function)

    def _decorate_class(self, cls: type) -> type:
        cls.__init__ = self(cls.__init__)  # type: ignore[misc]  # of this class, not a subclass
        return cls

    def _decorate_generator(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            resume, value = generator.send, None
            while True:
                try:
                    with self.clone():  # enter while it runs, leave at each yield
                        produced = resume(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    value = yield produced
                    resume = generator.send
                except GeneratorExit:
                    with self.clone():
                        generator.close()
                    raise
                except BaseException as error:
                    resume, value = generator.throw, error

        return decorated


class no_grad(_Switch):
    """Disable recording of operators inside.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    @overload
    def __new__(cls) -> Self: ...

    @overload
    def __new__(cls, function: Callable) -> Any: ...

    def __new__(cls, function: Callable | None = None) -> Any:
        result = object.__new__(cls)
        return result if function is None else cls.__call__(result, function)

    def __enter__(self) -> None:
        self.previous = MODE.grad
        MODE.grad = False


class enable_grad(no_grad):
    """Enable recording of operators inside, even within `no_grad`.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad(), torch.enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    def __enter__(self) -> None:
        self.previous = MODE.grad
        MODE.grad = True


class set_grad_enabled(_Switch):
    """Set grad mode immediately; as a context manager, restore it on exit.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.set_grad_enabled(False):
    ...     (x * 2).requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        if mode is None or isinstance(mode, (int, float, str)) and mode.__class__ is not bool:
            raise TypeError("set_grad_enabled(): argument 'enabled' (position 1) must be bool, not "
                            f"{type(mode).__name__}")
        self.previous = MODE.grad
        self.mode = bool(mode)
        MODE.grad = self.mode

    def __call__(self, function: F) -> F:
        MODE.grad = self.previous  # a decorator acts only when the function is called
        return super().__call__(function)

    def __enter__(self) -> None:
        MODE.grad = self.mode

    def clone(self) -> set_grad_enabled:
        previous = MODE.grad
        result = type(self)(self.mode)
        result.previous = previous
        return result

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"


def is_multithreading_enabled() -> bool:
    """Return whether `set_multithreading_enabled` allows backward to use several threads.

    >>> torch.autograd.is_multithreading_enabled()
    True
    """
    return MODE.multithreading


class set_multithreading_enabled(_Switch):
    """Allow backward to use several threads, or not; as a context manager, restore it on exit.

    A backward runs in the thread that calls it either way, as in PyTorch on a CPU; operators use
    the threads of `torch.set_num_threads`.

    >>> with torch.autograd.set_multithreading_enabled(False):
    ...     torch.autograd.is_multithreading_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        self.previous, self.mode = MODE.multithreading, bool(mode)
        MODE.multithreading = self.mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        MODE.multithreading = self.previous

    def clone(self) -> set_multithreading_enabled:
        return type(self)(self.mode)


class inference_mode(_Switch):
    """Like `no_grad`, for code whose results never take part in autograd.

    Outside, writing in place to such a tensor or saving it for backward raises RuntimeError.

    >>> with torch.inference_mode():
    ...     y = torch.ones(2) * 2
    >>> y.is_inference(), y.requires_grad
    (True, False)
    """

    mode: bool

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...

    @overload
    def __new__(cls, mode: Callable) -> Any: ...

    def __new__(cls, mode: bool | Callable = True) -> Any:
        result = object.__new__(cls)
        if isinstance(mode, bool):
            result.mode = mode
            return result
        result.mode = True
        return cls.__call__(result, mode)

    def __enter__(self) -> None:
        self.previous = MODE.grad, MODE.inference, creation.stamp
        MODE.inference = self.mode
        creation.stamp = INFERENCE if self.mode else None
        if self.mode and not MODE.exporting:  # exports keep no inference modes, as in PyTorch
            MODE.grad = False

    def __exit__(self, *exception: object) -> None:
        MODE.grad, MODE.inference, creation.stamp = self.previous

    def clone(self) -> inference_mode:
        return type(self)(self.mode)
