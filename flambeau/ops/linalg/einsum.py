"""einsum: sums of products over subscripts, contracted pairwise with batched matrix products."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...tensor.tensor import Tensor
from ..core.registry import composite
from .matmul import matmul

# Axis labels: a letter, or a negative number for an axis of an ellipsis.
Label = str | int


def _scan(text: str, start: int, place: str) -> list[str]:
    """Parse the subscripts of one operand or of the output; '...' counts as one subscript."""
    result: list[str] = []
    i = 0
    while i < len(text):
        c = text[i]
        if c == " ":
            pass
        elif c == ".":
            if "..." in result:
                clause = "but an ellipsis (...)" if place == "output" else "for which an ellipsis"
                raise RuntimeError(f"einsum(): found '.' for {place} {clause} was already found")
            if text[i : i + 3] != "...":
                raise RuntimeError(
                    f"einsum(): found '.' for {place} that is not part of any ellipsis"
                    + " (...)" * (place == "output")
                )
            result.append("...")
            i += 2
        elif c.isascii() and c.isalpha():
            result.append(c)
        else:
            raise RuntimeError(f"einsum(): invalid subscript given at index {start + i} in the "
                               "equation string, subscripts must be in [a-zA-Z]")
        i += 1
    return result


def _label_axes(subscripts: list[str], rank: int, index: int) -> tuple[Label, ...]:
    """Return an operand's subscripts with the ellipsis expanded."""
    label_count = len(subscripts) - ("..." in subscripts)
    if "..." in subscripts:
        if label_count > rank:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({label_count}) is more than "
                f"the number of dimensions ({rank}) for operand {index}"
            )
    elif label_count != rank:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({label_count}) does not match "
            f"the number of dimensions ({rank}) for operand {index} and no ellipsis was given"
        )
    result: list[Label] = []
    for s in subscripts:
        result.extend(range(label_count - rank, 0) if s == "..." else [s])
    return tuple(result)


@functools.lru_cache(1024)
def parse(equation: str, ranks: tuple[int, ...]) -> tuple[tuple, tuple[Label, ...]]:
    """Return the labels of each operand's axes and of the output's."""
    left, arrow, right = equation.partition("->")
    pieces = left.split(",")
    if len(pieces) != len(ranks):
        words = "fewer" if len(pieces) > len(ranks) else "more"
        raise RuntimeError(
            f"einsum(): {words} operands were provided than specified in the equation")
    operands, start = [], 0
    for i, (piece, rank) in enumerate(zip(pieces, ranks, strict=True)):
        operands.append(_label_axes(_scan(piece, start, f"operand {i}"), rank, i))
        start += len(piece) + 1
    counts: dict[Label, int] = {}
    for labels in operands:
        for label in labels:
            counts[label] = counts.get(label, 0) + 1
    dots = sorted(label for label in counts if isinstance(label, int))
    if not arrow:
        letters = sorted(s for s, n in counts.items() if isinstance(s, str) and n == 1)
        return tuple(operands), (*dots, *letters)
    output: list[Label] = []
    for s in _scan(right, len(left) + 2, "output"):
        if s == "...":
            output.extend(dots)
            continue
        if s in output:
            raise RuntimeError(f"einsum(): output subscript {s} appears more than once in the "
                               "output")
        if s not in counts:
            raise RuntimeError(
                f"einsum(): output subscript {s} does not appear in the equation for any input "
                "operand"
            )
        output.append(s)
    return tuple(operands), tuple(output)


def _merge_repeated_labels(
    x: Tensor, labels: Sequence[Label], index: int
) -> tuple[Tensor, list[Label]]:
    """Take diagonals of repeated labels, so that each label occurs once."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            m, n = x.shape[i], x.shape[j]
            if m != n:
                raise RuntimeError(f"einsum(): subscript {label} is repeated for operand {index} "
                                   f"but the sizes don't match, {n} != {m}")
            x = x.diagonal(0, i, j)
            del labels[j], labels[i]
            labels.append(label)
    return x, labels


def _measure_labels(
    operands: Sequence[tuple[Sequence[Label], tuple[int, ...]]]
) -> dict[Label, int]:
    """Return the length of each label from the operands' labels and shapes."""
    result: dict[Label, int] = {}
    for index, (labels, shape) in enumerate(operands):
        for label, n in zip(labels, shape, strict=True):
            known = result.get(label, 1)
            if n != known and 1 not in (n, known):
                if isinstance(label, int):
                    raise RuntimeError(
                        f"einsum(): dimension {labels.index(label)} covered by ellipsis in operand "
                        f"{index}has size {n} which does not broadcast with previously seen "
                        f"ellipsis with size {known} for the respective dimension"
                    )
                raise RuntimeError(
                    f"einsum(): subscript {label} has size {n} for operand {index} which does not "
                    f"broadcast with previously seen size {known}"
                )
            result[label] = known if n == 1 else n
    return result


def _reduce(x: Tensor, labels: Sequence[Label], drop: set) -> tuple[Tensor, list[Label]]:
    """Sum an operand over the labels in `drop`."""
    axes = [i for i, label in enumerate(labels) if label in drop]
    if not axes:
        return x, list(labels)
    return x.sum(axes), [label for label in labels if label not in drop]


def _arrange(x: Tensor, labels: Sequence[Label], order: Sequence[Label]) -> Tensor:
    """Permute the operand's axes to an order of labels."""
    axes = [labels.index(s) for s in order]
    return x if axes == list(range(len(axes))) else x.permute(axes)


class Steps(NamedTuple):
    """The steps that bring an operand into the form of a product; None for unneeded ones."""

    squeeze: tuple[int, ...] | None
    sort: tuple[int, ...] | None  # axes in the result's order, then those to sum
    sum: tuple[int, ...] | None
    permute: tuple[int, ...] | None
    reshape: tuple[int, ...] | None


class PairPlan(NamedTuple):
    """How to combine two operands: steps for each, a matrix or elementwise product, a reshape."""

    left: Steps
    right: Steps
    matrix: bool
    reshape: tuple[int, ...] | None
    labels: tuple[Label, ...]


def _take_diagonal(x: Tensor, steps: Steps) -> Tensor:
    squeeze, sort, summed, permute, reshape = steps
    if squeeze is not None:
        x = x.squeeze(squeeze)
    if sort is not None:
        x = x.permute(sort)
    if summed is not None:
        x = x.sum(summed)
    if permute is not None:
        x = x.permute(permute)
    return x if reshape is None else x.reshape(reshape)


def _locate_labels(labels: Sequence[Label], drop: set) -> tuple[int, ...] | None:
    return tuple(i for i, s in enumerate(labels) if s in drop) or None


def _order(labels: Sequence[Label], order: Sequence[Label]) -> tuple[int, ...] | None:
    actual = tuple(labels.index(s) for s in order)
    return None if actual == tuple(range(len(actual))) else actual


@functools.lru_cache(4096)
def _plan_pair(
    left: tuple[Label, ...], a: tuple[int, ...], right: tuple[Label, ...], b: tuple[int, ...],
    keep: frozenset, output: tuple[Label, ...] = (),
) -> PairPlan:
    """Return the plan for operands of shapes a and b, summing over labels not in `keep`.

    output: the order of the result's axes, as far as a product of matrices can have it.
    """
    sizes = _measure_labels(((left, a), (right, b)))
    # Axes of length 1 that the other operand broadcasts do not count.
    ones = [{s for s, n in zip(x, shape, strict=True) if n == 1 and sizes[s] != 1}
            for x, shape in ((left, a), (right, b))]
    free = [[s for s in x if s not in o] for x, o in zip((left, right), ones, strict=True)]
    alone = [set(free[0]) - keep - set(free[1]), set(free[1]) - keep - set(free[0])]
    x, y = ([s for s in w if s not in drop] for w, drop in zip(free, alone, strict=True))
    both = [s for s in x if s in y]
    batch, summed = [s for s in both if s in keep], [s for s in both if s not in keep]
    rows, columns = [s for s in x if s not in both], [s for s in y if s not in both]
    if output:
        batch, rows, columns = (sorted(part, key=output.index) for part in (batch, rows, columns))

    def lengths(*parts: list[Label]) -> tuple[int, ...]:
        return tuple(sizes[s] for part in parts for s in part)

    order = batch + rows + columns if summed or not output else sorted(
        batch + rows + columns, key=output.index)
    m, k, n = (math.prod(lengths(part)) for part in (rows, summed, columns))
    if summed:
        orders = batch + rows + summed, batch + summed + columns
        shapes: tuple[tuple[int, ...] | None, ...] = (
            (*lengths(batch), m, k) if len(rows) != 1 or len(summed) != 1 else None,
            (*lengths(batch), k, n) if len(columns) != 1 or len(summed) != 1 else None,
        )
        reshape = lengths(order) if len(rows) != 1 or len(columns) != 1 else None
    else:  # elementwise product with broadcasting
        orders = [s for s in order if s in x], [s for s in order if s in y]
        shapes = tuple(None if o == order else tuple(sizes[s] if s in o else 1 for s in order)
                       for o in orders)
        reshape = None
    first, second = [
        _plan_steps(labels, skipped, w, drop, order_of_axes, shape, output)
        for labels, skipped, w, drop, order_of_axes, shape in zip(
            (left, right), ones, free, alone, orders, shapes, strict=True)
    ]
    return PairPlan(first, second, bool(summed), reshape, tuple(order))


def _plan_steps(
    labels: Sequence[Label], skipped: set, free: list[Label], drop: set, order: list[Label],
    shape: tuple[int, ...] | None, output: tuple[Label, ...],
) -> Steps:
    """Return the steps of an operand: sums see its axes in the result's order, which decides how
    their result lies in memory."""
    remaining = [s for s in free if s not in drop]
    sort = None
    if output and drop:
        position = {s: i for i, s in enumerate(output)}
        remaining.sort(key=lambda s: position.get(s, len(output)))
        dropped = [s for s in free if s in drop]
        sort, free = _order(free, [*remaining, *dropped]), [*remaining, *dropped]
    return Steps(_locate_labels(labels, skipped), sort, _locate_labels(free, drop),
                 _order(remaining, order), shape)


def _contract_pair(a: tuple, b: tuple, keep: frozenset) -> tuple[Tensor, tuple[Label, ...]]:
    """Contract two operands to one, summing over labels not in `keep`."""
    (x, left), (y, right) = a, b
    plan = _plan_pair(tuple(left), x._array.shape, tuple(right), y._array.shape, keep)
    return _multiply_pair(x, y, plan), plan.labels


def _multiply_pair(x: Tensor, y: Tensor, plan: PairPlan) -> Tensor:
    x, y = _take_diagonal(x, plan.left), _take_diagonal(y, plan.right)
    result = matmul(x, y) if plan.matrix else x * y
    return result if plan.reshape is None else result.reshape(plan.reshape)


@functools.lru_cache(4096)
def _plan_two_operands(
    equation: str, a: tuple, b: tuple
) -> tuple[bool, PairPlan, tuple[int, ...] | None] | None:
    """Return the whole plan of an equation with two operands, or None if a label is repeated.

    (whether the operands change places, their plan, how to permute the result). They change places
    if the second one's axes come first in the result, so that it is contiguous, as PyTorch's.
    """
    (left, right), output = parse(equation, (len(a), len(b)))
    if len(set(left)) != len(left) or len(set(right)) != len(right):
        return None
    is_matrix = bool(set(left) & set(right) - set(output))
    rows, columns = (
        [output.index(s) for s in labels if s in output and s not in others]
        for labels, others in ((left, right), (right, left))
    )
    swaps = is_matrix and bool(rows and columns) and min(columns) < min(rows)
    if swaps:
        left, a, right, b = right, b, left, a
    plan = _plan_pair(left, a, right, b, frozenset(output), tuple(output))
    if set(plan.labels) != set(output):
        return None
    return swaps, plan, _order(plan.labels, output)


def _choose_pair(operands: list, output: Sequence[Label], sizes: dict) -> tuple[int, int]:
    """Choose the two operands to multiply next: the pair with the fewest multiplications."""
    best, cost = (0, 1), math.inf
    for i in range(len(operands)):
        for j in range(i + 1, len(operands)):
            rest = {s for k, o in enumerate(operands) if k not in (i, j) for s in o[1]}
            remaining = (set(operands[i][1]) | set(operands[j][1])) & (rest | set(output))
            both = set(operands[i][1]) | set(operands[j][1])
            result = math.prod(sizes[s] for s in remaining) * 1e-6 + math.prod(
                sizes[s] for s in both
            )
            if result < cost:
                best, cost = (i, j), result
    return best


def contract(operands: list, output: Sequence[Label]) -> Tensor:
    """Contract operands, (tensor, axis labels) pairs, to a tensor with the output labels."""
    sizes = _measure_labels([(labels, x._array.shape) for x, labels in operands])
    while len(operands) > 1:
        i, j = (0, 1) if len(operands) == 2 else _choose_pair(operands, output, sizes)
        first, second = operands[i], operands[j]
        rest = [o for k, o in enumerate(operands) if k not in (i, j)]
        keep = frozenset(output).union(*(labels for _, labels in rest))
        operands = [_contract_pair(first, second, keep), *rest]
    x, labels = operands[0]
    x, labels = _reduce(x, labels, set(labels) - set(output))
    missing = [s for s in output if s not in labels]  # length 1 in all operands
    for s in missing:
        x, labels = x.unsqueeze(-1), [*labels, s]
    return _arrange(x, labels, output)


def _convert_to_letter(number: Any) -> str:
    if number is Ellipsis:
        return "..."
    if not 0 <= number < 52:
        raise ValueError(
            "einsum(): subscript in subscript list is not within the valid range [0, 52)"
        )
    return chr(ord("A") + number) if number < 26 else chr(ord("a") + number - 26)


def _parse_lists(args: tuple) -> tuple[str, list[Tensor]]:
    """Return equation and operands of `einsum(x, [0, 1], y, [1, 2], [0, 2])`."""
    operands, pieces = list(args[: len(args) // 2 * 2 : 2]), []
    for subscripts in args[1 : len(args) // 2 * 2 : 2]:
        pieces.append("".join(map(_convert_to_letter, subscripts)))
    equation = ",".join(pieces)
    if len(args) % 2:
        equation += "->" + "".join(map(_convert_to_letter, args[-1]))
    return equation, operands


def _separate_operands(args: tuple) -> tuple:
    """Return the equation and each operand, for every calling convention of `einsum`."""
    if args and isinstance(args[0], Tensor):
        equation, operands = _parse_lists(args)
        return (equation, *operands)
    if len(args) == 2 and isinstance(args[1], (list, tuple)):
        return (args[0], *args[1])
    return args


NO_OPERANDS = ("einsum(): must specify the equation string and at least one operand, or at least "
               "one operand and its subscripts list")


def _check_operands(equation: Any, operands: list[Any]) -> None:
    if not operands:
        raise ValueError(NO_OPERANDS)
    if not isinstance(equation, str):
        raise TypeError("einsum(): argument 'equation' (position 1) must be str, not "
                        f"{type(equation).__name__}")
    for i, x in enumerate(operands):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 1, but got "
                            f"{type(x).__name__}")


@composite(expose=("torch",), explains=True)
def einsum(*args: Any) -> Tensor:
    """Sum products over subscripts: "ij,jk->ik" is a matrix product.

    Also accepts `einsum(x, [0, 1], y, [1, 2], [0, 2])`. `...` stands for the unnamed axes.

    >>> torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 2))
    tensor([[3., 3.],
            [3., 3.]])
    """
    if len(args) < 2:
        raise ValueError(NO_OPERANDS)
    equation, *operands = _separate_operands(args)
    _check_operands(equation, operands)
    if len(operands) == 2:
        x, y = operands
        result = _plan_two_operands(equation, x._array.shape, y._array.shape)
        if result is not None:
            swaps, plan, axes = result
            product = _multiply_pair(y, x, plan) if swaps else _multiply_pair(x, y, plan)
            return product if axes is None else product.permute(axes)
    labels, output = parse(equation, tuple(x._array.ndim for x in operands))
    each = [_merge_repeated_labels(x, s, i) if len(set(s)) != len(s) else (x, list(s))
            for i, (x, s) in enumerate(zip(operands, labels, strict=True))]
    return contract(each, output)


_dispatched: Any = einsum
_dispatched.rearrange_dispatched = _separate_operands  # overrides get each operand, no list
