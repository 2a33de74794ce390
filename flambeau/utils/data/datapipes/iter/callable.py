"""Pipes that call a function on each sample: `map` and `collate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ..._utils.collate import default_collate
from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe, check_length
from ..utils.common import _check_unpickable_fn, validate_input_col

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]

_T_co = TypeVar("_T_co", covariant=True)


def call_on_columns(fn: Callable[..., Any], data: Any, input_col: Any) -> Any:
    """Call a function with a sample, or with its column or columns if some are named."""
    if input_col is None:
        return fn(data)
    if isinstance(input_col, (list, tuple)):
        return fn(*(data[column] for column in input_col))
    return fn(data[input_col])


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[_T_co]):
    """Calls `fn` on each sample (functional name: ``map``).

    `input_col` is the column, or columns, to call it with: positions or keys. The result goes to
    `output_col` (-1 appends it), or without it to the first of the input's, and the others are
    removed. Raises ValueError if `fn` does not take as many arguments.

    >>> pairs = torch.utils.data.datapipes.iter.IterableWrapper([(1, 2), (3, 4)])
    >>> list(pairs.map(abs, input_col=0, output_col=-1))
    [(1, 2, 1), (3, 4, 3)]
    """

    def __init__(
        self, datapipe: IterDataPipe[Any], fn: Callable[..., Any], input_col: Any = None,
        output_col: Any = None,
    ) -> None:
        self.datapipe = datapipe
        _check_unpickable_fn(fn)
        self.fn = fn
        self.input_col = input_col
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.output_col = output_col
        validate_input_col(fn, input_col)

    def _apply_fn(self, data: Any) -> Any:
        result = call_on_columns(self.fn, data, self.input_col)
        if self.input_col is None:
            return result
        sample = list(data) if isinstance(data, tuple) else data
        if self.output_col == -1:
            sample.append(result)
        elif self.output_col is not None:
            sample[self.output_col] = result
        elif isinstance(self.input_col, (list, tuple)):
            sample[self.input_col[0]] = result
            for column in sorted(self.input_col[1:], reverse=True):
                del sample[column]
        else:
            sample[self.input_col] = result
        return tuple(sample) if isinstance(data, tuple) else sample

    def __iter__(self) -> Iterator[_T_co]:
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self) -> int:
        return check_length(self, self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe[Any]):
    """Collates each batch to tensors with `collate_fn`, `default_collate` without it.

    (functional name: ``collate``)

    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(4))
    >>> list(numbers.batch(2).collate())
    [tensor([0, 1]), tensor([2, 3])]
    """

    def __init__(
        self, datapipe: IterDataPipe[Any], conversion: Any = default_collate,
        collate_fn: Callable[..., Any] | None = None,
    ) -> None:
        if collate_fn is None and not callable(conversion):
            raise NotImplementedError(
                "torch.utils.data.datapipes.iter.Collator of data frames, whose columns have "
                "functions of their own, is not implemented in flambeau"
            )
        super().__init__(datapipe, fn=collate_fn or conversion)
