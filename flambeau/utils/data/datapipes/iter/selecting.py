"""Filter: the samples for which a function is true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import StreamWrapper, _check_unpickable_fn, validate_input_col
from .callable import call_on_columns

__all__ = ["FilterIterDataPipe"]

_T_co = TypeVar("_T_co", covariant=True)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[_T_co]):
    """Yields the samples for which `filter_fn` returns True (functional name: ``filter``).

    `input_col` is the column, or columns, to call it with. Raises ValueError if the function
    returns anything but a bool.

    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(5))
    >>> list(numbers.filter(lambda n: n % 2 == 0))
    [0, 2, 4]
    """

    def __init__(
        self, datapipe: IterDataPipe[_T_co], filter_fn: Callable[..., Any], input_col: Any = None
    ) -> None:
        self.datapipe = datapipe
        _check_unpickable_fn(filter_fn)
        self.filter_fn = filter_fn
        self.input_col = input_col
        validate_input_col(filter_fn, input_col)

    def __iter__(self) -> Iterator[_T_co]:
        for data in self.datapipe:
            condition = call_on_columns(self.filter_fn, data, self.input_col)
            if not isinstance(condition, bool):
                raise ValueError(
                    "Boolean output is required for `filter_fn` of FilterIterDataPipe, got",
                    type(condition),
                )
            if condition:
                yield data
            else:
                StreamWrapper.close_streams(data)
