"""Formats tensors as text the way PyTorch does: `tensor([1., 2.], requires_grad=True)`.

Takes a tensor or its NumPy array and returns a string. A long array is first reduced to its
corners, so the cost depends on the printed elements, not on the array's size.
"""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .dtypes import bool_, complex64, complex128, float64, get_default_dtype, int64
from .meta import MetaArray
from .narrow_dtypes import widen

if TYPE_CHECKING:
    from .tensor import Tensor


@dataclasses.dataclass
class PrintOptions:
    """How tensors are printed; `set_printoptions` changes the global instance."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


OPTIONS = PrintOptions()

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed. None keeps an option, except `sci_mode`, which is always set.

    `precision` is the number of digits after the point. A tensor of more than `threshold` elements
    shows the first and last `edgeitems` along each axis. Lines break at `linewidth` characters.
    `profile` ('default', 'short' or 'full') sets these four before individual options apply.
    `sci_mode` forces scientific notation on or off; None chooses by the values.

    >>> torch.set_printoptions(precision=2)
    >>> torch.tensor([0.12345])
    tensor([0.12])
    >>> torch.set_printoptions(profile="default")
    """
    chosen = dict(_PROFILES.get(profile, {})) if profile is not None else {}
    options = {
        "precision": precision, "threshold": threshold,
        "edgeitems": edgeitems, "linewidth": linewidth,
    }
    chosen.update((name, value) for name, value in options.items() if value is not None)
    for name, value in chosen.items():
        setattr(OPTIONS, name, value)
    OPTIONS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """Return the current options as keyword arguments for `set_printoptions`."""
    return dataclasses.asdict(OPTIONS)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Context that sets print options; takes the arguments of `set_printoptions`."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


# ---------------------------------------------------------------- the numbers


def _format_floats(array: np.ndarray) -> tuple[list[str], int]:
    """Return each float as text, padded to the width of the widest, and that width.

    All share one notation: whole ('1.'), fixed ('1.5000') or scientific. Zeros and non-finite
    numbers do not affect the notation or the width.
    """
    with np.errstate(all="ignore"):
        values = array.ravel().astype(np.float64)
        telling = np.isfinite(values) & (values != 0)
    known = values[telling]
    write: Callable[[float], str]
    are_integers = bool((known == np.ceil(known)).all())
    if known.size and _wants_scientific(known):
        write = f"{{:.{OPTIONS.precision}e}}".format
    elif are_integers:
        write = _format_whole_number
    else:
        write = f"{{:.{OPTIONS.precision}f}}".format
    cells = [write(value) for value in values.tolist()]
    width = max((len(cells[i]) for i in np.flatnonzero(telling).tolist()), default=1)
    return [cell.rjust(width) for cell in cells], width


def _wants_scientific(known: np.ndarray) -> bool:
    """Return whether these finite nonzero numbers need scientific notation: they are too large,
    too small or too far apart."""
    if OPTIONS.sci_mode is not None:
        return OPTIONS.sci_mode
    magnitudes = np.abs(known)
    low, high = float(magnitudes.min()), float(magnitudes.max())
    return high / low > 1e3 or high > 1e8 or low < 1e-4


def _format_whole_number(value: float) -> str:
    return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"


def _format_complex_numbers(array: np.ndarray) -> tuple[list[str], int]:
    """Return each complex number as text, and the width; the parts choose their own notation."""
    real, real_width = _format_floats(array.real)
    imaginary, imaginary_width = _format_floats(array.imag)
    cells = []
    for left, padded in zip(real, imaginary, strict=True):
        right = padded.lstrip()
        cells.append(f"{left}{'' if right[0] == '-' else '+'}{right}j")
    return cells, real_width + imaginary_width + 1


def _format_integers(array: np.ndarray) -> tuple[list[str], int]:
    """Return each integer or bool as text, padded to the width of the widest, and that width."""
    cells = [str(value) for value in array.ravel().tolist()]
    width = max(map(len, cells))
    return [cell.rjust(width) for cell in cells], width


# ---------------------------------------------------------------- the brackets


def _cut_corners(array: np.ndarray) -> tuple[np.ndarray, list[bool]]:
    """Return the first and last `edgeitems` along each axis, and which axes were shortened."""
    edge = OPTIONS.edgeitems
    cut = [length > 2 * edge for length in array.shape]
    shown = [
        np.r_[np.arange(edge), np.arange(length - edge, length)] if short else np.arange(length)
        for length, short in zip(array.shape, cut, strict=True)
    ]
    return array[np.ix_(*shown)], cut


def _mark_gap(parts: list[str], cut: bool, mark: str) -> list[str]:
    middle = len(parts) // 2
    return [*parts[:middle], mark, *parts[middle:]] if cut else parts


def _join_row(cells: list[str], per_line: int, indent: int) -> str:
    """Return the innermost brackets, `per_line` cells per line; later lines are indented."""
    lines = (", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line))
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def format_array(array: np.ndarray, indent: int = 0) -> str:
    """Return the elements of an array in brackets, with the first line starting at `indent`.

    >>> format_array(np.array([[1.0, 2.5]]))
    '[[1.0000, 2.5000]]'
    """
    if array.size == 0:
        return "[]"
    cut = [False] * array.ndim
    if array.ndim and array.size > OPTIONS.threshold:
        if not OPTIONS.edgeitems:
            return "[...]"
        array, cut = _cut_corners(array)
    kind = array.dtype.kind
    array = widen(array)
    kind = array.dtype.kind
    to_cells = {"c": _format_complex_numbers, "f": _format_floats, "V": _format_floats}.get(
        kind, _format_integers
    )
    cells, width = to_cells(array)
    if array.ndim == 0:
        return cells[0]
    *outer, columns = array.shape
    depth = indent + len(outer)
    per_line = max(1, math.floor((OPTIONS.linewidth - depth) / (width + len(", "))))
    parts = [
        _join_row(_mark_gap(cells[i : i + columns], cut[-1], " ..."), per_line, depth)
        for i in range(0, len(cells), columns)
    ]
    for axis in reversed(range(len(outer))):  # one more pair of brackets around each group
        length, between = outer[axis], "," + "\n" * (len(outer) - axis) + " " * (indent + axis + 1)
        parts = [
            "[" + between.join(_mark_gap(parts[i : i + length], cut[axis], "...")) + "]"
            for i in range(0, len(parts), length)
        ]
    return parts[0]


# ---------------------------------------------------------------- what stands around them

_PLAIN_CLASSES: set[type] = set()


def prints_as_tensor(cls: type) -> type:
    """Make a class (Tensor, Parameter) print as 'tensor(...)'; others print their class name."""
    _PLAIN_CLASSES.add(cls)
    return cls


def _is_parameter(tensor: Tensor) -> bool:
    marked = getattr(tensor, "_is_param", False)
    return marked or any(c in _PLAIN_CLASSES and not _PLAIN_CLASSES.isdisjoint(c.__mro__[1:])
                         for c in type(tensor).__mro__)


def _list_suffixes(tensor: Tensor) -> list[str]:
    """Return the suffixes of a printed tensor: device, size, dtype, place in the graph, tangent."""
    default = get_default_dtype()
    result = []
    shown_size = f"size={tuple(tensor.shape)}"
    evident = {default}
    if tensor.is_meta:
        result += [f"device='{tensor.device}'", shown_size]
    elif tensor.numel() == 0:
        if tensor.ndim != 1:
            result.append(shown_size)
    else:
        evident |= {complex128 if default is float64 else complex64, int64, bool_}
        if not OPTIONS.edgeitems:
            result.append(shown_size)
    if tensor.dtype not in evident:
        result.append(f"dtype={tensor.dtype}")
    tangent = Suffixes.tangent(tensor)
    return result + _describe_graph(tensor) + ([] if tangent is None else [f"tangent={tangent}"])


class Suffixes:
    """Hooks: forward mode sets `tangent` to print tangents, torch.func sets `levels` to print what
    its transforms track: the levels of a tensor, outermost first, and the tensor below them."""

    tangent: Callable[[Tensor], Tensor | None] = staticmethod(lambda tensor: None)
    levels: Callable[[Tensor], tuple[list[int], Tensor]] = staticmethod(lambda tensor: ([], tensor))


def _describe_graph(tensor: Tensor) -> list[str]:
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view whose base was overwritten without recording
        return ["grad_fn=<Invalid>"]
    if node is not None:
        return [f"grad_fn=<{type(node).__name__}>"]
    return ["requires_grad=True"] if tensor._requires_grad else []  # up to date after grad_fn


def _close(text: str, suffixes: list[str], indent: int, new_line: bool = False) -> str:
    """Add the suffixes, breaking the line when one does not fit, and the closing bracket.

    `new_line`: put the first suffix on a new line in any case.
    """
    parts = [text]
    # PyTorch counts two characters more than the body's last line contains.
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if new_line or column + len(suffix) + len(", ") > OPTIONS.linewidth:
            new_line = False
            parts.append(",\n" + " " * indent + suffix)
            column = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            column += len(suffix) + len(", ")
    return "".join(parts) + ")"


def format_tensor(tensor: Tensor, *, tensor_contents: str | None = None) -> str:
    """Return a tensor as text, with `tensor_contents` in place of its elements if given.

    >>> format_tensor(torch.ones(2, dtype=torch.float64))
    'tensor([1., 1.], dtype=torch.float64)'
    """
    levels, tensor = Suffixes.levels(tensor)
    text = _format_below(tensor, tensor_contents)
    for level in levels:
        inner = textwrap.indent(text, "    ")
        text = f"GradTrackingTensor(lvl={level}, value=\n{inner}\n)"
    return text


def _format_below(tensor: Tensor, tensor_contents: str | None) -> str:
    """Return a tensor as text, an example of a vmap as a batch."""
    cls = type(tensor)
    window: Any = tensor._array
    if getattr(window, "below", None) is not None:  # an example of a vmap
        below = window.below.movedim(0, window.axis) if window.axis else window.below
        inner = textwrap.indent(format_tensor(below), "    ")
        return f"BatchedTensor(lvl={window.batch.level}, bdim={window.axis}, value=\n{inner}\n)"
    plain = cls in _PLAIN_CLASSES
    prefix = "tensor(" if plain else f"{cls.__name__}("
    indent = len(prefix)
    if tensor_contents is None:
        array = tensor._array
        tensor_contents = "..." if array.__class__ is MetaArray else format_array(array, indent)
    text = _close(prefix + tensor_contents, _list_suffixes(tensor), indent)
    return f"Parameter({text})" if not plain and _is_parameter(tensor) else text


def format_sparse(tensor: Tensor, parts: dict[str, np.ndarray], nnz: int) -> str:
    """Return a sparse tensor as text: its component arrays, then size, nnz, dtype and layout."""
    prefix = "tensor("
    indent, lines = len(prefix), []
    for name, array in parts.items():
        on_meta = array.__class__ is MetaArray
        text = "..." if on_meta else format_array(array, indent + len(f"{name}=tensor("))
        if array.size == 0 or on_meta:
            text += f", size={tuple(array.shape)}"
        lines.append(f"{name}=tensor({text})")
    default = get_default_dtype()
    evident = {default, complex128 if default is float64 else complex64, int64, bool_}
    shown_size = f"size={tuple(tensor.shape)}"
    suffixes = [f"device='{tensor.device}'", shown_size] if tensor.is_meta else \
        [shown_size, f"nnz={nnz}"]
    if tensor.dtype not in evident:
        suffixes.append(f"dtype={tensor.dtype}")
    suffixes += [f"layout={tensor.layout}", *_describe_graph(tensor)]
    contents = (",\n" + " " * indent).join(lines)
    return _close(prefix + contents, suffixes, indent, new_line=tensor.is_sparse)


def quantized_str(contents: str, tensor: Tensor, details: list[str]) -> str:
    """Return a quantized tensor as text: `contents`, then its size and `details`."""
    prefix = "tensor("
    suffixes = [f"size={tuple(tensor.shape)}", *details]
    return _close(prefix + contents, suffixes, len(prefix))
