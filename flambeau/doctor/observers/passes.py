"""PassObserver: reports backward passes: those that add to `.grad`, and autograd.grad calls used
for training."""

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
from ..places import find_spot, list_callers
from . import Observer

if TYPE_CHECKING:
    from ..session import Session


class PassObserver:
    """Observers of the engine and its callers."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.tensor: Tensor | None = None  # the tensor that is differentiated
        self.inputs: list[Any] | None = None  # the inputs of autograd.grad
        self.transforms = False  # inside torch.func.grad, which always records

    def targets(self) -> list[tuple[Any, Observer]]:
        """Return the functions to patch, with their observers."""
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
        """`_Level.gradients(outputs, cotangents)`: called by func.grad if cotangents is None."""
        was_in_transform, self.transforms = self.transforms, args[2] is None
        try:
            return original(*args, **kwargs)
        finally:
            self.transforms = was_in_transform

    def grad(self, original: Callable, args: tuple, kwargs: dict) -> Any:
        """`autograd.grad`: a training step if it differentiates a scalar by weights."""
        outputs = args[0] if args else kwargs.get("outputs")
        inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
        recorded = args[4] if len(args) > 4 else kwargs.get("create_graph", False)
        if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
            outputs = outputs[0]
        if type(outputs) is Tensor and outputs._array.size == 1 \
                and (self.transforms or not recorded):
            gradients = [inputs] if isinstance(inputs, Tensor) else list(inputs or ())
            if are_weights(gradients):
                self.tensor, self.inputs = outputs, gradients
        if not recorded and not self.session.busy and self.session.watching:
            self.session.emit("on_slope", list_callers(4))
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
                         find_spot(), session.watching, session.updates)
        if not accumulates and not self._trains(event, inputs or []):
            return original(*args, **kwargs)
        session.emit("on_backward" if accumulates else "on_gradient", event)
        result = original(*args, **kwargs)
        if accumulates:
            session.emit("after_backward", event)
        elif not session.optimizers:
            session.updates += 1  # the program updates by hand
        self._tick()
        return result

    def _trains(self, event: Backward, inputs: list[Any]) -> bool:
        """Return whether a pass asks for the gradients of all leaves. An adversarial attack asks
        only for the image's, not the weights'."""
        if not event.watched:
            return True
        start_s = time.perf_counter()
        input_ids = {id(x) for x in inputs}
        try:
            return all(key in input_ids for key in event.graph.leaves)
        finally:
            self.session.clock.spent_s += time.perf_counter() - start_s

    def _tick(self) -> None:
        """Count a pass, and rest if watching has become too expensive."""
        session = self.session
        start_s = time.perf_counter()
        closely = session.clock.tick()
        if session.clock.too_dear or (session.compiled and not closely):
            session.rest()
        else:
            session.watch(closely)
        session.clock.spent_s += time.perf_counter() - start_s


def are_weights(inputs: list[Any]) -> bool:
    """Return whether tensors look like trained weights: leaves that are Parameters, or several
    leaves. A single plain leaf may be an image."""
    leaves = [x for x in inputs if isinstance(x, Tensor) and x.is_leaf]
    return len(leaves) == len(inputs) and (
        len(leaves) > 1 or all(isinstance(x, Parameter) for x in leaves))
