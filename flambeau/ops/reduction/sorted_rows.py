"""The order in which unique(dim) meets rows with NaN.

Rows are compared number by number; a NaN is neither less nor greater than anything, so that the
comparison is no order, and the result depends on the algorithm. This is libstdc++'s std::sort:
quicksort around a median of three down to 16 rows, then insertion (Musser, "Introspective sorting
and selection algorithms", 1997), without its change to heapsort.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_Less = Callable[[int, int], bool]


def sort_rows(rows: np.ndarray) -> np.ndarray:
    """Return the rows' indices in the order of std::sort."""
    def less(a: int, b: int) -> bool:
        differs = (rows[a] < rows[b]) | (rows[a] > rows[b])
        column = int(differs.argmax())
        return bool(differs[column] and rows[a][column] < rows[b][column])

    order = list(range(len(rows)))
    unsorted = 16  # rows that quicksort leaves to insertion
    if rows.shape[1]:
        _quicksort(order, 0, len(order), less, unsorted)
        for i in range(1, len(order)):
            _insert(order, i, less, is_first=i < unsorted)
    return np.array(order, np.int64)


def _quicksort(order: list[int], first: int, last: int, less: _Less, unsorted: int) -> None:
    while last - first > unsorted:
        _move_median(order, first, (first + 1, first + (last - first) // 2, last - 1), less)
        cut = _partition(order, first, last, less)
        _quicksort(order, cut, last, less, unsorted)
        last = cut


def _move_median(order: list[int], first: int, places: tuple[int, int, int], less: _Less) -> None:
    """Swap the first row with the median of three."""
    a, b, c = places
    x, y, z = order[a], order[b], order[c]
    if less(x, y):
        median = b if less(y, z) else c if less(x, z) else a
    else:
        median = a if less(x, z) else c if less(y, z) else b
    order[first], order[median] = order[median], order[first]


def _partition(order: list[int], first: int, last: int, less: _Less) -> int:
    """Move rows less than the first before the others, and return where these begin."""
    pivot, low, high = order[first], first + 1, last
    while True:
        while low < len(order) - 1 and less(order[low], pivot):
            low += 1
        high -= 1
        while high > 0 and less(pivot, order[high]):
            high -= 1
        if low >= high:
            return low
        order[low], order[high] = order[high], order[low]
        low += 1


def _insert(order: list[int], i: int, less: _Less, is_first: bool) -> None:
    """Move row `i` before the rows in front of it that it is less than.

    Among the first rows, one that is less than the very first goes before it unseen.
    """
    row = order[i]
    place = i
    if is_first and less(row, order[0]):
        place = 0
    else:
        while place > 0 and less(row, order[place - 1]):
            place -= 1
    order.insert(place, order.pop(i))


def find_distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (index of each distinct row, index of each row's distinct one, counts).

    Rows are distinct if they differ from the row before them in this order; NaN differs from NaN.
    """
    order = sort_rows(rows)
    differs = np.ones(len(rows), bool)
    differs[1:] = (rows[order[1:]] != rows[order[:-1]]).any(1)
    starts = np.flatnonzero(differs)
    inverse = np.empty(len(rows), np.int64)
    inverse[order] = np.cumsum(differs) - 1
    return order[starts], inverse, np.diff(np.append(starts, len(rows)))
