"""SizedExample: an input of an exported program whose shape names its dynamic dimensions."""

from __future__ import annotations

from typing import Any

from ..ops.interception.torch_function import _disabled_torch_function_impl
from ..tensor.size import Size
from ..tensor.tensor import Tensor

__all__ = ["SizedExample"]


class SizedExample(Tensor):
    """The example's tensor, with a shape of sizes that may be symbolic."""

    _sizes: tuple[Any, ...]

    @staticmethod
    def __new__(cls: Any, value: Tensor, sizes: tuple[Any, ...]) -> Any:
        """The example `value` with these sizes."""
        result = value.detach()._alias(cls)
        result.__dict__["_sizes"] = sizes
        return result

    def __init__(self, *args: Any) -> None:
        pass

    def __deepcopy__(self, memo: dict[int, Any]) -> SizedExample:
        if id(self) not in memo:
            memo[id(self)] = SizedExample(self._alias(Tensor).clone(), self._sizes)
        copied: SizedExample = memo[id(self)]
        return copied

    @property
    def shape(self) -> Size:
        """The sizes."""
        return tuple.__new__(Size, self._sizes)


_methods: Any = SizedExample
_methods.__torch_function__ = _disabled_torch_function_impl
