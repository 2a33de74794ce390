"""Instruments: record curves for the page at watched steps: losses, rates, gradients, updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .events import Backward, Update
from .graph import find_module, get_array, get_operator_name, get_saved
from .places import place_of

if TYPE_CHECKING:
    from .session import Session

_NUMBERS = 2048  # values of a parameter that are sampled
_CURVES = 24  # curves per kind; further parameters are left out
_POINTS = 512  # points per curve


class Instruments:
    """Adds points to the session's curves, named `kind: what`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.names: dict[int, str] = {}
        self.before: list[tuple[Any, np.ndarray]] = []
        for event in ("on_backward", "on_step", "after_step"):
            session.handlers[event].append(getattr(self, event))
        session.handlers["on_gradient"].append(self.on_backward)

    id = "instruments"

    def _point(self, chart: str, label: str, value: float) -> None:
        curves = self.session.curves
        name = f"{chart}: {label}"
        if name not in curves:
            if sum(existing.startswith(f"{chart}:") for existing in curves) >= _CURVES:
                return
            curves[name] = []
        curve = curves[name]
        if len(curve) < _POINTS:
            curve.append((self.session.clock.passes, float(value)))

    def _name(self, parameter: Any) -> str | None:
        """Return a parameter's name, or None for parameters past the first `_CURVES`."""
        name = self.names.get(id(parameter))
        if name is None and len(self.names) < _CURVES:
            name = self.names[id(parameter)] = self.session.parameter_name(parameter)
        return name

    def on_backward(self, backward: Backward) -> None:
        value = backward.value
        if value is not None:
            place = place_of(backward.spot) if len(self.session.curves) < _CURVES else None
            line = f"line {place.line}" if place is not None else "loss"
            if place is not None or f"loss: {line}" in self.session.curves:
                self._point("loss", line, value)
        if backward.watched:
            self._note_dead_units(backward)

    def _note_dead_units(self, backward: Backward) -> None:
        for node in backward.graph.nodes:
            if get_operator_name(node) in ("relu_only", "relu"):
                output = get_array(get_saved(node, "y"))
                if output is not None and output.ndim > 1 and len(output) > 1:
                    dead = (output.reshape(len(output), -1) == 0).all(0).mean()
                    layer = find_module(node)
                    self._point("dead units", type(layer).__name__ if layer is not None else "relu",
                                float(dead))

    def on_step(self, update: Update) -> None:
        self.before = []
        if not update.watched:
            return
        for parameter in update.params[:_CURVES]:
            grad = parameter._grad
            name = self._name(parameter) if grad is not None else None
            if grad is not None and name is not None and parameter._array.dtype.kind == "f":
                self._point("gradient norm", name, float(np.linalg.norm(grad._array)))
                if parameter._array.ndim > 1:
                    flat = parameter._array.reshape(-1)[:_NUMBERS]
                    self.before.append((parameter, flat.copy()))

    def after_step(self, update: Update) -> None:
        rate = update.optimizer.param_groups[0].get("lr") if update.optimizer.param_groups else None
        if isinstance(rate, float):
            self._point("learning rate", type(update.optimizer).__name__, rate)
        for parameter, before in self.before:
            size = float(np.linalg.norm(before))
            change = parameter._array.reshape(-1)[:_NUMBERS] - before
            if size:
                self._point("update / weight", self.names[id(parameter)],
                            float(np.linalg.norm(change)) / size)
        self.before = []
