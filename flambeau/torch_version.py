"""torch.torch_version: a version that compares with strings and tuples."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]


class TorchVersion(str):
    """A version string which compares number by number: TorchVersion("2.13.0") > "2.9".

    >>> torch.torch_version.TorchVersion("2.13.0") > (2, 9)
    True
    """

    __slots__ = ()

    @staticmethod
    def _numbers(version: Any) -> tuple[int, ...]:
        if isinstance(version, str):
            version = re.findall(r"\d+", re.split(r"[+a-z]", version, maxsplit=1)[0])
        numbers = [int(n) for n in version]
        while numbers and numbers[-1] == 0:
            numbers.pop()
        return tuple(numbers)

    def __gt__(self, other: Any) -> bool:
        return self._numbers(self) > self._numbers(other)

    def __lt__(self, other: Any) -> bool:
        return self._numbers(self) < self._numbers(other)

    def __ge__(self, other: Any) -> bool:
        return self._numbers(self) >= self._numbers(other)

    def __le__(self, other: Any) -> bool:
        return self._numbers(self) <= self._numbers(other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (str, tuple, list)):
            return NotImplemented
        return str.__eq__(self, other) is True or self._numbers(self) == self._numbers(other)

    __hash__ = str.__hash__
