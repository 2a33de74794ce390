"""Representations of a trainer: one line of text, and HTML for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..trainer import Trainer


def describe(trainer: Trainer) -> str:
    """Return one line with the net, its size, the optimizers, the loss and the run's position."""
    net = trainer.net
    facts = ["no net" if net is None else type(net).__name__]
    if net is not None:
        facts.append(f"{sum(p.numel() for p in net.parameters()):,} parameters")
    facts += [type(optimizer).__name__ for optimizer in trainer.optimizers.values()]
    if trainer.loss is not None:
        facts.append(getattr(trainer.loss, "__name__", type(trainer.loss).__name__))
    if trainer.state.epoch:
        facts.append(f"epoch {trainer.state.epoch}, step {trainer.state.step}")
    return f"Trainer({', '.join(facts)})"


def describe_as_html(trainer: Trainer) -> str:
    """Return HTML with that line, the layers, and the learning curves so far."""
    elements = [f"<p><code>{escape(describe(trainer))}</code></p>"]
    if trainer.net is not None:
        layers = trainer.summary()._repr_html_()
        elements.append(f"<details><summary>layers</summary>{layers}</details>")
    if len(trainer.history) > 1:
        elements.append(trainer.plot()._repr_html_())
    elif trainer.history:
        elements.append(trainer.history._repr_html_())
    return "".join(elements)
