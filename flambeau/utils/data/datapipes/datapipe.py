"""The classes of datapipes, IterDataPipe and MapDataPipe: datasets with registered methods such as
`map` and `batch`, which return the next pipe of a chain."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from ..dataset import Dataset, IterableDataset, measure_length
from ._hook_iterator import _SnapshotState
from ._typing import _DataPipeMeta, _IterDataPipeMeta
from .utils.common import import_dill

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class DataChunk(list[_T]):
    """A batch of samples: a list.

    >>> torch.utils.data.DataChunk([1, 2]).as_str(">")
    '>[1, 2]'
    """

    def __init__(self, items: Iterable[_T]) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """Return the samples as text."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def __iter__(self) -> Iterator[_T]:
        yield from super().__iter__()

    def raw_iterator(self) -> Iterator[_T]:
        """Iterate over the samples as they were before any change of the list."""
        yield from self.items


class _Chainable:
    """Base of both kinds of pipes: registered methods, and pickling hooks per class."""

    functions: ClassVar[dict[str, Callable[..., Any]]]
    reduce_ex_hook: ClassVar[Callable[..., Any] | None] = None
    getstate_hook: ClassVar[Callable[..., Any] | None] = None
    str_hook: Callable[..., str] | None = None
    repr_hook: Callable[..., str] | None = None

    def __getattr__(self, attribute_name: str) -> Any:
        registered = type(self).functions
        if attribute_name not in registered:
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute '{attribute_name}"
            )
        function = functools.partial(registered[attribute_name], self)
        functools.update_wrapper(function, registered[attribute_name], assigned=("__doc__",))
        return function

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make a function, whose first argument is a pipe, a method of all pipes of this kind."""
        cls.functions[function_name] = function

    @classmethod
    def _flambeau_register(cls, name: str, constructor: Callable[..., Any]) -> None:
        if name in cls.functions:
            raise Exception(
                f"Unable to add DataPipe function name {name} as it is already taken"
            )
        function = functools.partial(_construct, constructor)
        functools.update_wrapper(function, constructor, assigned=("__doc__",))
        cls.functions[name] = function

    def __getstate__(self) -> Any:
        hook = type(self).getstate_hook
        return self.__dict__ if hook is None else hook(self.__dict__)

    def __reduce_ex__(self, *args: Any, **kwargs: Any) -> Any:
        hook = type(self).reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(*args, **kwargs)

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[..., Any] | None) -> None:
        """Set the function that maps each pipe's state to the state to pickle."""
        cls._flambeau_set_hook("getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[..., Any] | None) -> None:
        """Set the function that reduces each pipe; if it raises NotImplementedError, the default
        applies."""
        cls._flambeau_set_hook("reduce_ex_hook", hook_fn)

    @classmethod
    def _flambeau_set_hook(cls, name: str, hook: Callable[..., Any] | None) -> None:
        owner = next(base for base in cls.__mro__ if "functions" in base.__dict__)
        if getattr(owner, name) is not None and hook is not None:
            raise RuntimeError(f"Attempt to override existing {name}")
        setattr(owner, name, None if hook is None else staticmethod(hook))

    def __repr__(self) -> str:
        return type(self).__qualname__ if self.repr_hook is None else self.repr_hook(self)

    def __str__(self) -> str:
        return type(self).__qualname__ if self.str_hook is None else self.str_hook(self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).functions]


def _construct(constructor: Callable[..., Any], pipe: Any, *args: Any, **kwargs: Any) -> Any:
    return constructor(pipe, *args, **kwargs)


class IterDataPipe(_Chainable, IterableDataset[_T_co], metaclass=_IterDataPipeMeta):
    """Stream of samples: subclasses define `__iter__`, and `reset` if they buffer samples.

    Each `iter()` calls `reset` and invalidates earlier iterators, which then raise RuntimeError.

    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(5))
    >>> list(numbers.map(abs).batch(2))
    [[0, 1], [2, 3], [4]]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    _valid_iterator_id: int | None = None
    _number_of_samples_yielded: int = 0
    _snapshot_state: _SnapshotState = _SnapshotState.NotStarted
    _fast_forward_iterator: Iterator[Any] | None = None

    def __iter__(self) -> Any:
        return self

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Callable[..., Any],
        enable_df_api_tracing: bool = False,
    ) -> None:
        """Make a class of pipes a method of all streams. Raises Exception if the name is taken."""
        if enable_df_api_tracing:
            raise NotImplementedError(
                "torch.utils.data.datapipes.dataframe is not implemented in flambeau"
            )
        cls._flambeau_register(function_name, cls_to_register)

    def reset(self) -> None:
        """Return to the start; called by `iter()`. A pipe with buffers empties them here."""


class DFIterDataPipe(IterDataPipe[Any]):
    """Base class of pipes of data frames.

    >>> issubclass(torch.utils.data.DFIterDataPipe, torch.utils.data.IterDataPipe)
    True
    """

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(_Chainable, Dataset[_T_co], metaclass=_DataPipeMeta):
    """Pipe with an index: subclasses define `__getitem__`, and `__len__` for the samplers.

    >>> numbers = torch.utils.data.datapipes.map.SequenceWrapper(range(4))
    >>> list(numbers.map(abs).batch(2))
    [[0, 1], [2, 3]]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Callable[..., Any]
    ) -> None:
        """Make a class of pipes a method of all map pipes. Raises Exception if the name is taken.
        """
        cls._flambeau_register(function_name, cls_to_register)


class _DataPipeSerializationWrapper:
    """Wraps a pipe for DataLoader workers: pickles it, with dill if pickle fails."""

    def __init__(self, datapipe: Any) -> None:
        self._datapipe = datapipe

    def __getstate__(self) -> tuple[bytes, bool]:
        try:
            return pickle.dumps(self._datapipe), False
        except Exception:
            dill = import_dill()
            if dill is None:
                raise
            return dill.dumps(self._datapipe), True

    def __setstate__(self, state: tuple[bytes, bool]) -> None:
        value, uses_dill = state
        self._datapipe = (import_dill() if uses_dill else pickle).loads(value)

    def __len__(self) -> int:
        try:
            return len(self._datapipe)
        except Exception as error:
            raise TypeError(
                f"{type(self).__name__} instance doesn't have valid length"
            ) from error


class _IterDataPipeSerializationWrapper(_DataPipeSerializationWrapper, IterDataPipe[Any]):
    def __init__(self, datapipe: IterDataPipe[Any]) -> None:
        super().__init__(datapipe)
        self._datapipe_iter: Iterator[Any] | None = None

    def __iter__(self) -> _IterDataPipeSerializationWrapper:
        self._datapipe_iter = iter(self._datapipe)
        return self

    def __next__(self) -> Any:
        if self._datapipe_iter is None:
            raise AssertionError(
                "Iterator has not been initialized; call __iter__() before __next__()"
            )
        return next(self._datapipe_iter)


class _MapDataPipeSerializationWrapper(_DataPipeSerializationWrapper, MapDataPipe[Any]):
    def __getitem__(self, index: Any) -> Any:
        return self._datapipe[index]


def check_length(pipe: Any, source: Any) -> int:
    """Return the source's length. Raises TypeError, which names the pipe, if it has none."""
    if hasattr(type(source), "__len__"):
        return measure_length(source)
    raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")
