"""einsum: sums of products named by subscripts, pair after pair by way of batched products."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from ..tensor.tensor import Tensor
from .matmul import matmul
from .registry import composite

# Axes have labels: a letter, or a number below zero for the axes of an ellipsis.
Label = str | int


def _scanned(text: str, start: int, place: str) -> list[str]:
    """The subscripts of one operand, or of the output, with '...' as one of them."""
    found: list[str] = []
    i = 0
    while i < len(text):
        c = text[i]
        if c == " ":
            pass
        elif c == ".":
            if "..." in found:
                raise RuntimeError(f"einsum(): found '.' for {place} for which an ellipsis was "
                                   "already found")  # fmt: skip
            if text[i : i + 3] != "...":
                raise RuntimeError(
                    f"einsum(): found '.' for {place} that is not part of any ellipsis"
                )
            found.append("...")
            i += 2
        elif c.isascii() and c.isalpha():
            found.append(c)
        else:
            raise RuntimeError(f"einsum(): invalid subscript given at index {start + i} in the "
                               "equation string, subscripts must be in [a-zA-Z]")  # fmt: skip
        i += 1
    return found


def _labelled(subscripts: list[str], rank: int, index: int) -> tuple[Label, ...]:
    """An operand's subscripts with the ellipsis spelled out."""
    named = len(subscripts) - ("..." in subscripts)
    if "..." in subscripts:
        if named > rank:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) is more than the "
                f"number of dimensions ({rank}) for operand {index}"
            )
    elif named != rank:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({named}) does not match the "
            f"number of dimensions ({rank}) for operand {index} and no ellipsis was given"
        )
    found: list[Label] = []
    for s in subscripts:
        found.extend(range(named - rank, 0) if s == "..." else [s])
    return tuple(found)


@functools.lru_cache(1024)
def parsed(equation: str, ranks: tuple[int, ...]) -> tuple[tuple, tuple[Label, ...]]:
    """The labels of each operand's axes, and of the output's."""
    left, arrow, right = equation.partition("->")
    pieces = left.split(",")
    if len(pieces) != len(ranks):
        few = "fewer" if len(pieces) > len(ranks) else "more"
        raise RuntimeError(f"einsum(): {few} operands were provided than specified in the equation")
    operands, start = [], 0
    for i, (piece, rank) in enumerate(zip(pieces, ranks, strict=True)):
        operands.append(_labelled(_scanned(piece, start, f"operand {i}"), rank, i))
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
    for s in _scanned(right, len(left) + 2, "output"):
        if s == "...":
            output.extend(dots)
            continue
        if s in output:
            raise RuntimeError(f"einsum(): output subscript {s} appears more than once in the "
                               "output")  # fmt: skip
        if s not in counts:
            raise RuntimeError(
                f"einsum(): output subscript {s} does not appear in the equation for any input "
                "operand"
            )
        output.append(s)
    return tuple(operands), tuple(output)


def _once(x: Tensor, labels: Sequence[Label], index: int) -> tuple[Tensor, list[Label]]:
    """An operand whose repeated labels are diagonals: each label is left once."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            m, n = x.shape[i], x.shape[j]
            if m != n:
                raise RuntimeError(f"einsum(): subscript {label} is repeated for operand {index} "
                                   f"but the sizes don't match, {n} != {m}")  # fmt: skip
            x = x.diagonal(0, i, j)
            del labels[j], labels[i]
            labels.append(label)
    return x, labels


def _sizes(operands: Sequence[tuple[Tensor, list[Label]]]) -> dict[Label, int]:
    found: dict[Label, int] = {}
    for index, (x, labels) in enumerate(operands):
        for label, n in zip(labels, x._array.shape, strict=True):
            known = found.get(label, 1)
            if n != known and 1 not in (n, known):
                raise RuntimeError(
                    f"einsum(): subscript {label} has size {n} for operand {index} which does not "
                    f"broadcast with previously seen size {known}"
                )
            found[label] = known if n == 1 else n
    return found


def _reduced(x: Tensor, labels: list[Label], drop: set) -> tuple[Tensor, list[Label]]:
    """An operand summed over the labels in `drop`."""
    axes = [i for i, label in enumerate(labels) if label in drop]
    if not axes:
        return x, labels
    return x.sum(axes), [label for label in labels if label not in drop]


def _without_ones(x: Tensor, labels: list[Label], sizes: dict) -> tuple[Tensor, list[Label]]:
    """An operand without the axes of length 1 that the other operand has longer."""
    axes = [i for i, s in enumerate(labels) if x._array.shape[i] == 1 and sizes[s] != 1]
    if not axes:
        return x, labels
    return x.squeeze(tuple(axes)), [s for i, s in enumerate(labels) if i not in axes]


def _arranged(x: Tensor, labels: list[Label], order: Sequence[Label]) -> Tensor:
    """The operand's axes in another order of labels."""
    places = [labels.index(s) for s in order]
    return x if places == list(range(len(places))) else x.permute(places)


def _pair(a: tuple, b: tuple, keep: set, sizes: dict) -> tuple[Tensor, list[Label]]:
    """Two operands made one: summed over the labels that are not in `keep`."""
    (x, left), (y, right) = _without_ones(*a, sizes), _without_ones(*b, sizes)
    x, left = _reduced(x, left, set(left) - keep - set(right))
    y, right = _reduced(y, right, set(right) - keep - set(left))
    both = [s for s in left if s in right]
    batch, summed = [s for s in both if s in keep], [s for s in both if s not in keep]
    rows, columns = [s for s in left if s not in both], [s for s in right if s not in both]
    order = batch + rows + columns
    if not summed:
        return _multiplied(x, left, y, right, order), order
    x, y = _arranged(x, left, batch + rows + summed), _arranged(y, right, batch + summed + columns)

    def lengths(labels: list[Label]) -> list[int]:
        return [sizes[s] for s in labels]

    m, k, n = (math.prod(lengths(part)) for part in (rows, summed, columns))
    if len(rows) != 1 or len(summed) != 1:
        x = x.reshape([*lengths(batch), m, k])
    if len(columns) != 1 or len(summed) != 1:
        y = y.reshape([*lengths(batch), k, n])
    made = matmul(x, y)
    if len(rows) != 1 or len(columns) != 1:
        made = made.reshape(lengths(order))
    return made, order


def _multiplied(x: Tensor, left: list, y: Tensor, right: list, order: list) -> Tensor:
    """The products of elements, broadcast: nothing to sum."""
    parts = []
    for t, labels in ((x, left), (y, right)):
        t = _arranged(t, labels, [s for s in order if s in labels])
        lengths = dict(zip([s for s in order if s in labels], t._array.shape, strict=True))
        parts.append(t.reshape([lengths.get(s, 1) for s in order]))
    return parts[0] * parts[1]


def _next_pair(operands: list, output: Sequence[Label], sizes: dict) -> tuple[int, int]:
    """Which two operands to multiply next: those whose result is smallest."""
    best, cost = (0, 1), math.inf
    for i in range(len(operands)):
        for j in range(i + 1, len(operands)):
            rest = {s for k, o in enumerate(operands) if k not in (i, j) for s in o[1]}
            kept = (set(operands[i][1]) | set(operands[j][1])) & (rest | set(output))
            both = set(operands[i][1]) | set(operands[j][1])
            found = math.prod(sizes[s] for s in kept) * 1e-6 + math.prod(sizes[s] for s in both)
            if found < cost:
                best, cost = (i, j), found
    return best


def contracted(operands: list, output: Sequence[Label]) -> Tensor:
    """The operands, each a tensor with its axes' labels, made one with the output's labels."""
    sizes = _sizes(operands)
    while len(operands) > 1:
        i, j = (0, 1) if len(operands) == 2 else _next_pair(operands, output, sizes)
        first, second = operands[i], operands[j]
        rest = [o for k, o in enumerate(operands) if k not in (i, j)]
        keep = set(output).union(*(labels for _, labels in rest))
        operands = [_pair(first, second, keep, sizes), *rest]
    x, labels = _reduced(*operands[0], set(operands[0][1]) - set(output))
    missing = [s for s in output if s not in labels]  # they were 1 everywhere
    for s in missing:
        x, labels = x.unsqueeze(-1), [*labels, s]
    return _arranged(x, labels, output)


def _letter(number: Any, place: str) -> str:
    if number is Ellipsis:
        return "..."
    if not 0 <= number < 52:
        raise ValueError(f"einsum(): expected subscripts in {place} to be within the range "
                         f"[0, 52), but got {number}")  # fmt: skip
    return chr(ord("A") + number) if number < 26 else chr(ord("a") + number - 26)


def _from_lists(args: tuple) -> tuple[str, list[Tensor]]:
    """The equation and operands of `einsum(x, [0, 1], y, [1, 2], [0, 2])`."""
    operands, pieces = list(args[: len(args) // 2 * 2 : 2]), []
    for subscripts in args[1 : len(args) // 2 * 2 : 2]:
        pieces.append("".join(_letter(s, "the operand subscript list") for s in subscripts))
    equation = ",".join(pieces)
    if len(args) % 2:
        equation += "->" + "".join(_letter(s, "the output subscript list") for s in args[-1])
    return equation, operands


@composite(expose=("torch",))
def einsum(*args):
    """Sums of products named by subscripts: "ij,jk->ik" is a matrix product.

    Also `einsum(x, [0, 1], y, [1, 2], [0, 2])`. `...` stands for the axes not named.

    >>> torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 2))
    tensor([[3., 3.],
            [3., 3.]])
    """
    if len(args) < 2:
        raise ValueError("einsum(): must specify the equation string and at least one operand, or "
                         "at least one operand and its subscripts list")  # fmt: skip
    if isinstance(args[0], Tensor):
        equation, operands = _from_lists(args)
    else:
        equation, operands = args[0], args[1:]
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = operands[0]
    labels, output = parsed(equation, tuple(x._array.ndim for x in operands))
    each = [_once(x, s, i) if len(set(s)) != len(s) else (x, list(s))
            for i, (x, s) in enumerate(zip(operands, labels, strict=True))]  # fmt: skip
    return contracted(each, output)
