"""The evaluation step: the net's output and loss, compiled like the training step.

A few batches do not pay for a program. Request one after several batches, or at once if more will
come, as in validations during training, or if an earlier process cached it. A resumable run builds
it at once, so that results do not depend on the number of batches, bit for bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..._namespace.settings import are_deterministic_algorithms_enabled
from .batch_kinds import BatchKinds
from .step_function import Region, call_net, try_compile

_COMPILER = "flambeau.compiler.driver.compiled_function"
_EAGER_BATCHES = 4  # batches before a program is requested
_LONG_RUN_BATCHES = 8  # longer evaluations request it at once


class Look:
    """Evaluates `net` without gradients: `look(x, y)` returns (loss, output), `predict(x)` the
    output."""

    def __init__(
        self, net: Any, loss: Any, region: Region | None, compiled: bool, kinds: BatchKinds
    ) -> None:
        self.net = net

        def evaluation(x: Any, y: Any) -> tuple[Any, Any]:
            if region is None:
                y_pred = call_net(net, x)
                return (None if loss is None else loss(y_pred, y)), y_pred
            with region():
                y_pred = call_net(net, x)
                return (None if loss is None else loss(y_pred, y)), y_pred

        def prediction(x: Any) -> Any:
            if region is None:
                return call_net(net, x)
            with region():
                return call_net(net, x)

        self.plain: Callable[..., Any] = evaluation
        self.look = evaluation if not compiled else Whole(evaluation, (net, loss), kinds)
        self.predict = prediction if not compiled else Whole(prediction, (net,), kinds)

    def expect(self, batches: int) -> None:
        """Announce the number of batches to come."""
        if isinstance(self.look, Whole):
            self.look.expect(batches)


class Whole:
    """A function of a batch that is compiled after several calls."""

    def __init__(
        self, function: Callable[..., Any], parts: tuple[Any, ...], kinds: BatchKinds
    ) -> None:
        self.function, self.parts, self.kinds = function, parts, kinds
        self._calls = 0
        self._compiled: Any = None
        self._step: Callable[..., Any] | None = None

    def expect(self, batches: int) -> None:
        """Announce the number of calls to come."""
        if batches > _LONG_RUN_BATCHES:
            self._calls = _EAGER_BATCHES

    def __call__(self, *batch: Any) -> Any:
        if self._step is None:
            if are_deterministic_algorithms_enabled():
                from .deterministic import ExactStep  # brings the compiler

                self._step = ExactStep(self.function, self.parts, (), self.kinds)
            elif self._calls < _EAGER_BATCHES and not self._is_cached(batch):
                self._calls += 1
                return self.function(*batch)
            else:
                self._step = self._request_compiled()
        return self._step(*batch)

    def _request_compiled(self) -> Any:
        """Return the compiled function, creating it on the first call. Need not be called."""
        if self._compiled is None:
            # The net has already run, so state created by its first call exists.
            self._compiled = try_compile(self.function, options={"settled": True})
        return self._compiled

    def _is_cached(self, batch: tuple[Any, ...]) -> bool:
        """Whether an earlier process cached the program. Does not import the compiler to look."""
        if _COMPILER not in sys.modules:
            return False
        lookup = getattr(self._request_compiled(), "is_cached", None)
        return lookup is not None and bool(lookup(*batch))
