"""PassObserver: tells of backward passes, those that add to `.grad` and those of autograd.grad
that a program trains with."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...autograd import engine
from ...nn.parameter import Parameter
from ...tensor.tensor import Tensor
from ..events import Backward
from ..places import callers, here
from . import Observer

if TYPE_CHECKING:
    from ..session import Session


class PassObserver:
    """Takes the place of the engine, and of what calls it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.tensor: Tensor | None = None  # what is differentiated
        self.inputs: list[Any] | None = None  # with respect to what, in autograd.grad
        self.transforms = False  # torch.func.grad is at work, which always records
        self.sequence = 0

    def targets(self) -> list[tuple[Any, Observer]]:
        """The functions, with what stands in for them."""
        transforms = importlib.import_module("flambeau.func.transforms")
        gradient = importlib.import_module("flambeau.autograd.backward").grad
        return [
            (engine.run, self.run),
            (vars(Tensor)["backward"], self.backward),
            (gradient, self.grad),
            (transforms._Level.gradients, self.transform),
        ]

    def backward(self, original: Callable, args: tuple, kwargs: dict) -> Any:
        """`Tensor.backward`."""
        self.tensor = args[0]
        try:
            return original(*args, **kwargs)
        finally:
            self.tensor = None

    def transform(self, original: Callable, args: tuple, kwargs: dict) -> Any:
        """`_Level.gradients(outputs, cotangents)`: of func.grad where it has no cotangents."""
        before, self.transforms = self.transforms, args[2] is None
        try:
            return original(*args, **kwargs)
        finally:
            self.transforms = before

    def grad(self, original: Callable, args: tuple, kwargs: dict) -> Any:
        """`autograd.grad`: of one number, and with respect to weights, it is a training step's."""
        outputs = args[0] if args else kwargs.get("outputs")
        inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
        recorded = args[4] if len(args) > 4 else kwargs.get("create_graph", False)
        if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
            outputs = outputs[0]
        if type(outputs) is Tensor and outputs._array.size == 1 \
                and (self.transforms or not recorded):
            every = [inputs] if isinstance(inputs, Tensor) else list(inputs or ())
            if are_weights(every):
                self.tensor, self.inputs = outputs, every
        if not recorded and not self.session.busy and self.session.watching:
            self.session.emit("on_slope", callers(4))
        try:
            return original(*args, **kwargs)
        finally:
            self.tensor = self.inputs = None

    def run(self, original: Callable, args: tuple, kwargs: dict) -> Any:
        """`engine.run(roots, retain_graph, create_graph, captures, accumulate, partial)`."""
        session, tensor, inputs = self.session, self.tensor, self.inputs
        accumulates = args[4] if len(args) > 4 else kwargs.get("accumulate", True)
        if session.busy or threading.get_ident() != session.thread or (
            not accumulates and inputs is None
        ):
            return original(*args, **kwargs)
        self.tensor = self.inputs = None
        event = Backward(session.clock.passes + 1, [target for target, _ in args[0]], tensor,
                         here(), self.sequence, session.watching, session.updates)
        if not accumulates and not self._trains(event, inputs or []):
            return original(*args, **kwargs)
        session.emit("on_backward" if accumulates else "on_gradient", event)
        self.sequence = max(
            [getattr(getattr(t, "node", t), "sequence", 0) for t in event.roots], default=0
        )
        result = original(*args, **kwargs)
        if accumulates:
            session.emit("after_backward", event)
        elif not session.optimizers:
            session.updates += 1  # the program updates by hand
        self._tick()
        return result

    def _trains(self, event: Backward, inputs: list[Any]) -> bool:
        """Whether a pass asks for all gradients that there are. An attack asks for that of an
        image and leaves the weights'."""
        if not event.watched:
            return True
        begun = time.perf_counter()
        wanted = {id(x) for x in inputs}
        try:
            return all(key in wanted for key in event.graph.leaves)
        finally:
            self.session.clock.spent_s += time.perf_counter() - begun

    def _tick(self) -> None:
        """Count a pass, and rests where watching has become too dear."""
        session = self.session
        begun = time.perf_counter()
        closely = session.clock.tick()
        if session.clock.too_dear or (session.compiled and not closely):
            session.rest()
        else:
            session.watch(closely)
        session.clock.spent_s += time.perf_counter() - begun


def are_weights(inputs: list[Any]) -> bool:
    """Whether tensors look like what is trained: leaves that are Parameters, or several. A lone
    plain leaf may as well be an image."""
    leaves = [x for x in inputs if isinstance(x, Tensor) and x.is_leaf]
    return len(leaves) == len(inputs) and (
        len(leaves) > 1 or all(isinstance(x, Parameter) for x in leaves))
