"""How documentation sees a function's own code below the stubs of recorders and modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Stubs:
    """`take_off` returns the function without its stub. The layer of the stubs sets it."""

    take_off: Callable[[Any], Any] = staticmethod(lambda function: function)
