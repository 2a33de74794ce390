"""`trainer.summary()`: the layers of a net with shapes, parameters, multiply-adds and memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from ...autograd.mode import no_grad
from ...nn.module import Module
from ...tensor.tensor import Tensor
from ...tensor.tree import get_first_leaf
from ...utils.flop_counter import FlopCounterMode

_TITLES = ("layer", "output shape", "parameters", "multiply-adds")


@dataclass(frozen=True)
class Layer:
    """A row: a module without submodules, or with direct parameters."""

    name: str
    kind: str
    shape: str
    parameters: int
    trainable: int
    multiply_adds: int
    output_bytes: int


class ModelSummary:
    """The rows and their totals. Prints as a table; notebooks show HTML."""

    def __init__(self, net: Module, layers: list[Layer]) -> None:
        self.layers = layers
        unique = {id(p): p for p in net.parameters()}.values()
        self.parameters = sum(p.numel() for p in unique)
        self.trainable = sum(p.numel() for p in unique if p.requires_grad)
        self.parameter_bytes = sum(p.numel() * p.element_size() for p in unique)
        self.multiply_adds = sum(layer.multiply_adds for layer in layers)
        self.output_bytes = sum(layer.output_bytes for layer in layers)

    def _format_cells(self) -> list[tuple[str, ...]]:
        return [
            (f"{layer.name} ({layer.kind})", layer.shape, f"{layer.parameters:,}",
             f"{layer.multiply_adds:,}" if layer.multiply_adds else "")
            for layer in self.layers
        ]

    def _format_totals(self) -> str:
        frozen = self.parameters - self.trainable
        totals = [f"{self.parameters:,} parameters"]
        if frozen:
            totals[0] += f", {frozen:,} of them frozen"
        totals.append(f"{self.parameter_bytes / 2**20:.2f} MB of parameters")
        if self.output_bytes:
            totals.append(f"{self.multiply_adds:,} multiply-adds a pass")
            totals.append(f"{self.output_bytes / 2**20:.2f} MB of outputs")
        return "; ".join(totals)

    def __repr__(self) -> str:
        cells = [_TITLES, *self._format_cells()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = []
        for row in cells:
            names = [c.ljust(w) for c, w in zip(row[:2], widths[:2], strict=True)]
            numbers = [c.rjust(w) for c, w in zip(row[2:], widths[2:], strict=True)]
            lines.append("  ".join([*names, *numbers]).rstrip())
        return "\n".join([*lines, self._format_totals()])

    def _repr_html_(self) -> str:
        def row(cells: Iterable[str], tag: str) -> str:
            return f"<tr>{''.join(f'<{tag}>{escape(c)}</{tag}>' for c in cells)}</tr>"

        body = "".join(row(cells, "td") for cells in self._format_cells())
        return (f"<table><thead>{row(_TITLES, 'th')}</thead><tbody>{body}</tbody></table>"
                f"<p>{escape(self._format_totals())}</p>")


def summarize(net: Module, batch: Any = None) -> ModelSummary:
    """Summarize a net. Shapes and multiply-adds need a batch of inputs to run it on.

    `batch` is a tensor, a tuple of arguments, or a dict of named ones. The net runs once, without
    gradients, in eval mode; its state and random numbers are unchanged.
    """
    from ...ops.creation.random import get_rng_state, set_rng_state

    outputs: dict[str, Any] = {}
    counts: dict[str, int] = {}
    if batch is not None:
        training = [(module, module.training) for module in net.modules()]
        random = get_rng_state()
        handles = [
            module.register_forward_hook(
                lambda module, args, output, name=name: outputs.setdefault(name, output))
            for name, module in net.named_modules()
        ]
        net.eval()
        try:
            with no_grad(), FlopCounterMode(display=False) as counter:
                _call(net, batch)
            counts = {name: sum(operators.values()) // 2
                      for name, operators in counter.get_flop_counts().items()}
        finally:
            for handle in handles:
                handle.remove()
            for module, mode in training:
                module.training = mode
            set_rng_state(random)
    return ModelSummary(net, list(_iterate_layers(net, outputs, counts)))


def _iterate_layers(net: Module, outputs: dict[str, Any], counts: dict[str, int]
                    ) -> Iterable[Layer]:
    root = type(net).__name__
    for name, module in net.named_modules():
        parameters = list(module.parameters(recurse=False))
        if next(module.children(), None) is not None and not parameters:
            continue
        tensor = _find_tensor(outputs.get(name))
        yield Layer(
            name or root, type(module).__name__, "" if tensor is None else str(tuple(tensor.shape)),
            sum(p.numel() for p in parameters),
            sum(p.numel() for p in parameters if p.requires_grad),
            counts.get(f"{root}.{name}" if name else root, 0),
            0 if tensor is None else tensor.numel() * tensor.element_size(),
        )


def _call(net: Module, batch: Any) -> Any:
    if isinstance(batch, dict):
        return net(**batch)
    return net(*batch) if isinstance(batch, (tuple, list)) else net(batch)


def _find_tensor(output: Any) -> Tensor | None:
    leaf = get_first_leaf(output)
    return leaf if isinstance(leaf, Tensor) else None
