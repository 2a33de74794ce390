"""Record collectives as events: the values sent and the values received.

`torch.distributed` reports to this module if the process has loaded the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ..ir.exchange import Arrays, Exchange
from ..trace.trace import EXCHANGE
from .capture import get_recorder
from .recorder import Recorder


def get_active_recorder() -> Recorder | None:
    """This thread's recorder if it is recording, else None."""
    result = get_recorder()
    return result if result is not None and result.on else None


class Transfer:
    """A collective that a recorded call is about to run, on tensors packed into flat arrays.

    `scale` multiplies the sent values. `of` distinguishes similar collectives: two recorded calls
    match only if they used the same object. `start` and `finish`: see Exchange.
    """

    def __init__(
        self, recorder: Recorder, name: str, scale: float, of: Any,
        start: Callable[[Arrays], None], finish: Callable[[], Arrays],
    ) -> None:
        recorder.compute()
        self._recorder, self._scale, self._of = recorder, scale, of
        self._exchange = Exchange(name, start, finish)
        self._sent: Arrays = ()

    def sends(self, arrays: Arrays, groups: Sequence[Sequence[Tensor]] = ()) -> None:
        """Note what this process sends. `groups`: the tensors whose values it packs."""
        for group in groups:
            for tensor in group:
                self._recorder.refer(tensor)  # before their memory changes
        if self._recorder.trace.values:
            self._sent = [copy for array in arrays if (copy := self._copy_array(array)) is not None]

    def note_received(self, arrays: Arrays, groups: Sequence[Sequence[Tensor]]) -> None:
        """Note what was received: each group's tensors take the values of one array, in order."""
        recorder = self._recorder
        if recorder.trace.values:
            results = [copy for array in arrays if (copy := self._copy_array(array)) is not None]
            self._exchange.recorded = self._sent, results
        windows = tuple(tuple(recorder.refer(item) for item in group) for group in groups)
        recorder.add(
            EXCHANGE, function=self._exchange, args=windows,
            kwargs={"scale": self._scale, "of": _Identity(self._of)},
            written=tuple(window for group in windows for window in group),
        )

    def _copy_array(self, array: np.ndarray) -> np.ndarray | None:
        return self._recorder.trace.copy_array(array)


class _Identity:
    """A key that compares by object identity."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.of is other.of

    __hash__ = None  # type: ignore[assignment]
