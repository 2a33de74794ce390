"""Decorators of datapipe classes: `functional_datapipe` makes one a method of all pipes,
`non_deterministic` marks one whose order may vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._typing import _DataPipeMeta
from .datapipe import IterDataPipe, MapDataPipe


class functional_datapipe:
    """Class decorator: make the class a method `name` of pipes of its kind.

    Raises Exception if the name is taken.

    >>> @torch.utils.data.functional_datapipe("doubled")
    ... class Doubled(torch.utils.data.IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         for x in self.source:
    ...             yield 2 * x
    >>> list(torch.utils.data.datapipes.iter.IterableWrapper([1, 2]).doubled())
    [2, 4]
    """

    name: str

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        if not isinstance(cls, type):
            marked = cls if isinstance(cls, non_deterministic) else getattr(cls, "__self__", None)
            if not isinstance(marked, non_deterministic):
                raise TypeError("`functional_datapipe` can only decorate IterDataPipe")
            pipe_class: Any = marked.cls
        else:
            pipe_class = cls
        if issubclass(pipe_class, IterDataPipe):
            IterDataPipe.register_datapipe_as_function(
                self.name, cls, enable_df_api_tracing=self.enable_df_api_tracing
            )
        elif issubclass(pipe_class, MapDataPipe):
            MapDataPipe.register_datapipe_as_function(self.name, cls)
        return cls


_determinism = False


class guaranteed_datapipes_determinism:
    """Context in which creating a pipe marked `non_deterministic` raises TypeError.

    >>> RandomWrapper = torch.utils.data.non_deterministic(
    ...     torch.utils.data.datapipes.iter.IterableWrapper)
    >>> with torch.utils.data.guaranteed_datapipes_determinism():
    ...     RandomWrapper([1])
    Traceback (most recent call last):
    ...
    TypeError: IterableWrapperIterDataPipe is non-deterministic, but you set ...
    """

    prev: bool

    def __init__(self) -> None:
        global _determinism
        self.prev = _determinism
        _determinism = True

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        global _determinism
        _determinism = self.prev


class non_deterministic:
    """Class decorator for a pipe whose order may vary.

    Given a function, the pipe counts as such if function(constructor arguments) returns True.

    >>> Set = torch.utils.data.non_deterministic(torch.utils.data.datapipes.iter.IterableWrapper)
    >>> sorted(Set({1, 2}))
    [1, 2]
    """

    cls: Any = None
    deterministic_fn: Callable[..., bool]

    def __init__(self, arg: Any) -> None:
        if isinstance(arg, type):
            if not issubclass(arg, IterDataPipe):
                raise TypeError(
                    "Only `IterDataPipe` can be decorated with `non_deterministic`, but "
                    f"{arg.__name__} is found"
                )
            self.cls = arg
        elif callable(arg):
            self.deterministic_fn = arg
        else:
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is not None:
            if _determinism:
                raise TypeError(
                    f"{self.cls.__name__} is non-deterministic, but you set "
                    "'guaranteed_datapipes_determinism'. You can turn off determinism for this "
                    "DataPipe if that is acceptable for your application"
                )
            return self.cls(*args, **kwargs)
        if not (isinstance(args[0], _DataPipeMeta) and issubclass(args[0], IterDataPipe)):
            raise TypeError(
                f"Only `IterDataPipe` can be decorated, but {args[0].__name__} is found"
            )
        self.cls = args[0]
        return self.deterministic_wrapper_fn

    def deterministic_wrapper_fn(self, *args: Any, **kwargs: Any) -> Any:
        """Create the pipe, unless its arguments make it non-deterministic and that is forbidden."""
        is_random = self.deterministic_fn(*args, **kwargs)
        if not isinstance(is_random, bool):
            raise TypeError(
                "deterministic_fn of `non_deterministic` decorator is required to return a boolean "
                f"value, but {type(is_random)} is found"
            )
        if _determinism and is_random:
            raise TypeError(
                f"{self.cls.__name__} is non-deterministic with the inputs, but you set "
                "'guaranteed_datapipes_determinism'. You can turn off determinism for this "
                "DataPipe if that is acceptable for your application"
            )
        return self.cls(*args, **kwargs)
