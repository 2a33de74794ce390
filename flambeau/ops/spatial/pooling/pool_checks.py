"""What a pooling refuses, in PyTorch's words and order.

max_pool1d without indices has words of its own. Any other pooling along one axis is checked as one
over images of height 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_AXES = {2: ("H", "W"), 3: ("T", "H", "W")}
_NUMBERS = {2: "two ints", 3: "three ints"}


class Pooling:
    """A pooling as its errors call it."""

    def __init__(self, name: str, n: int, with_indices: bool) -> None:
        self.name, self.n = name, n
        self.is_max = name.startswith("max")
        self.is_plain_line = n == 1 and self.is_max and not with_indices

    def expand(self, value: Any, argument: str) -> tuple[int, ...]:
        """Return a setting for each axis, from one number or a list of 1 or n."""
        if value.__class__ is int:
            return (value,) * self.n
        values = tuple(int(v) for v in value) if hasattr(value, "__iter__") else (int(value),)
        if len(values) == 1:
            return values * self.n
        if len(values) != self.n:
            raise RuntimeError(self._describe_length(argument, len(values)))
        return values

    def _describe_length(self, argument: str, length: int) -> str:
        if self.is_plain_line:
            listed = "None, an int, list of ints, or" if argument == "stride" else \
                "an int, list of ints, or" if argument == "padding" else "an int, list of ints or"
            return (f"{self.name}() {argument} must be {listed} tuple of ints of size 1 but got "
                    f"size {length}")
        if self.n == 1:
            return f"{self.name}() argument '{argument}' should contain one int (got {length})"
        choice = "omitted, a single int" if argument == "stride" else "a single int"
        verb = "must" if self.name == "avg_pool3d" else "must either"
        if argument == "dilation":
            verb, choice = "must be", f"either {choice}"
        else:
            verb += " be"
        return f"{self.name}: {argument} {verb} {choice}, or a tuple of {_NUMBERS[self.n]}"

    def check_rank(self, shape: Sequence[int]) -> None:
        """RuntimeError, for average pooling of too few axes IndexError, for another rank."""
        n, rank = self.n, len(shape)
        if rank in (n + 1, n + 2):
            return
        if self.is_plain_line:
            raise self._build_shape_error(shape)
        if n == 1:
            raise RuntimeError(
                f"Expected 2 to 3 dimensions, but got {rank}-dimensional tensor for argument #1 "
                f"'self' (while checking arguments for {self.name})"
            )
        if self.is_max or n == 3:
            raise RuntimeError(f"non-empty {n + 1}D or {n + 2}D (batch mode) tensor expected for "
                               "input")
        if rank > n + 2:
            raise self._build_shape_error(shape)
        low, high = (-rank, rank - 1) if rank else (-1, 0)
        raise IndexError(f"Dimension out of range (expected to be in range of [{low}, {high}], but "
                         "got -3)")

    def check_sizes(self, shape: Sequence[int]) -> None:
        """RuntimeError if an axis other than the batch is empty."""
        if 0 not in shape[-self.n - 1 :]:
            return
        if self.n == 3:
            caller = "max_pool3d_with_indices_out_cpu_template" if self.is_max else self.name
            raise RuntimeError(
                f"{caller}(): Expected input's non-batch dimensions to have positive length, but "
                f"input has a shape of {list(shape)} and non-batch dimension 0 has length zero!"
            )
        raise self._build_shape_error(shape)

    def _build_shape_error(self, shape: Sequence[int]) -> RuntimeError:
        prefix, n = (f"{self.name}: ", 1) if self.is_plain_line else ("", max(self.n, 2))
        planes = [*shape[:-1], 1, shape[-1]] if self.n < n else list(shape)
        return RuntimeError(f"{prefix}Expected {n + 1}D or {n + 2}D (batch mode) tensor with "
                            f"optional 0 dim batch size for input, but got:{planes}")

    def check_settings(self, kernel: tuple, stride: tuple, pads: tuple, dilation: tuple) -> None:
        """RuntimeError for numbers that make no window."""
        if self.is_plain_line:
            self._check_line(kernel[0], stride[0], pads[0], dilation[0])
            return
        if 0 in stride:
            raise RuntimeError("stride should not be zero")
        for k, p, d in zip(kernel, pads, dilation, strict=True):
            if p < 0:
                raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
            if p > int(((k - 1) * d + 1) / 2):
                raise RuntimeError(
                    "pad should be at most half of effective kernel size, but got "
                    f"pad={p}, kernel_size={k} and dilation={d}"
                )
        for values, what, prefix in ((kernel, "kernel size", "k"), (stride, "stride", "d"),
                                     (dilation, "dilation", "dilation")):
            if min(values) <= 0:
                raise RuntimeError(f"{what} should be greater than zero, but got "
                                   f"{self._spell(prefix, values)}")

    def _check_line(self, kernel: int, stride: int, pad: int, dilation: int) -> None:
        for value, argument in ((kernel, "kernel_size"), (stride, "stride")):
            if value <= 0:
                raise RuntimeError(f"{self.name}() {argument} must be greater than zero, but got "
                                   f"{value}")
        if pad < 0:
            raise RuntimeError(f"{self.name}() padding must be non-negative, but got {pad}")
        if pad > kernel // 2:
            raise RuntimeError(f"{self.name}() padding should be at most half of kernel size, but "
                               f"got padding={pad} and kernel_size={kernel}")
        if dilation <= 0:
            raise RuntimeError(f"{self.name}() dilation must be greater than zero, but got "
                               f"{dilation}")

    def _spell(self, prefix: str, values: Sequence[int]) -> str:
        whole = (1, *values) if self.n == 1 else values
        return " ".join(f"{prefix}{axis}: {v}"
                        for axis, v in zip(_AXES[max(self.n, 2)], whole, strict=True))

    def check_output(self, shape: Sequence[int], result: Sequence[int], kernel: tuple) -> None:
        """RuntimeError if no window fits."""
        spatial = shape[-self.n :]
        if self.name == "avg_pool3d" and any(
                m < k for m, k in zip(spatial, kernel, strict=True)):
            raise RuntimeError(f"input image ({self._spell('', spatial)}) smaller than kernel "
                               f"size ({self._spell('k', kernel)})")
        if min(result) >= 1:
            return
        if self.is_plain_line:
            raise RuntimeError(f"{self.name}() Invalid computed output size: {result[0]}")
        planes = (shape[-self.n - 1], 1) if self.n == 1 else (shape[-self.n - 1],)
        raise RuntimeError(
            f"Given input size: ({'x'.join(map(str, (*planes, *spatial)))}). Calculated output "
            f"size: ({'x'.join(map(str, (*planes, *result)))}). Output size is too small"
        )
