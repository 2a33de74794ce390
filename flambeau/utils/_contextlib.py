"""Context managers as decorators, of functions and of generators: libraries subclass them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from ..native.foundation.user_frames import warn

__all__ = ["context_decorator"]

Factory = Callable[[], AbstractContextManager]


def context_decorator(ctx: AbstractContextManager | Factory, func: Callable) -> Callable[..., Any]:
    """Return `func` run within a context manager, or one that the callable `ctx` returns each time.

    A generator runs within it at intervals. Raises RuntimeError for a class.

    >>> decorate = torch.utils._contextlib.context_decorator
    >>> decorate(lambda: torch.no_grad(), torch.is_grad_enabled)()
    False
    """
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(
            f"Passed in {ctx} is both callable and also a valid context manager (has __enter__), "
            "making it ambiguous which interface to use.  If you intended to pass a context "
            "manager factory, rewrite your call as context_decorator(lambda: ctx()); if you "
            "intended to pass a context manager directly, rewrite your call as "
            "context_decorator(lambda: ctx)")
    if inspect.isclass(func):
        raise RuntimeError(
            "Cannot decorate classes; it is ambiguous whether or not only the constructor or all "
            "methods should have the context manager applied; additionally, decorating a class at "
            "definition-site will prevent use of the identifier as a conventional type.  To "
            "specify which methods to decorate, decorate each of them individually.")
    factory: Factory = ctx if callable(ctx) else lambda: ctx
    if inspect.isgeneratorfunction(func):
        return _decorate_generator(factory, func)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        with factory():
            return func(*args, **kwargs)

    return call


def _decorate_generator(
    factory: Factory, func: Callable[..., Generator]
) -> Callable[..., Generator]:
    @functools.wraps(func)
    def generate(*args: Any, **kwargs: Any) -> Generator:
        generator = func(*args, **kwargs)
        step: Callable[[], Any] = functools.partial(generator.send, None)
        try:
            while True:
                with factory():
                    value = step()
                try:
                    step = functools.partial(generator.send, (yield value))
                except GeneratorExit:
                    with factory():
                        generator.close()
                    raise
                except BaseException as error:
                    step = functools.partial(generator.throw, error)
        except StopIteration as end:
            return end.value

    return generate


class _DecoratorContextManager:
    """Base of context managers whose instances decorate functions."""

    def __call__(self, orig_func: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isclass(orig_func):
            warn(
                "Decorating classes is deprecated and will be disabled in future versions. You "
                "should only decorate functions or methods. To preserve the current behavior of "
                "class decoration, you can directly decorate the `__init__` method and nothing "
                "else.", FutureWarning)
            create = orig_func
            return context_decorator(self.clone, lambda *args, **kwargs: create(*args, **kwargs))
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        raise NotImplementedError

    def clone(self) -> Self:
        """Return a new instance, which each decorated call enters."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same, which decorates without parentheses as well."""

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        return super().__new__(cls) if orig_func is None else cls()(orig_func)
