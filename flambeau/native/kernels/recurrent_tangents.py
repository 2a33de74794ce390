"""Recurrent layers over time with their tangents: all steps, value and tangent, in one kernel.

The steps of the forward kernel on dual numbers: each panel of the recurrent weights multiplies the
states and their tangents, then the cell's formula pushes the tangents of what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..loop_ir.expression_builder import Dual, Value
from ..loop_ir.ir import Buffer, Expression, Index, Statement, Type
from .recurrent import (
    ForwardKernel, RecurrentExtents, RecurrentKernel, SequenceLayout, Terms, units_per_panel,
)
from .recurrent_cells import Cell


def build_forward_with_tangents(
    cell: Cell, type: Type, extents: RecurrentExtents, inputs: Mapping[str, SequenceLayout],
    outputs: Mapping[str, Sequence[SequenceLayout]],
) -> RecurrentKernel:
    """Return the forward kernel that also pushes tangents.

    Inputs: those of `build_forward`, and `x_t`; optionally `h_t`, `c_t` and `bias_t`, their
    tangents, and `panels_t`, the tangent of the recurrent weights. Results: y, h and c, and their
    tangents y_t, h_t and c_t.
    """
    return _TangentKernel(cell, type, extents, inputs, outputs,
                          units_per_panel(cell, extents.width, type)).kernel()


class _TangentKernel(ForwardKernel):
    def list_states(self) -> list[str]:
        """Return the names of the states that steps carry, and of their tangents."""
        states = super().list_states()
        return [*states, *(f"{name}_t" for name in states)]

    def list_hidden(self) -> list[str]:
        """Return the states that enter the next step's products."""
        return ["h", "h_t"]

    def compute_sums(self, panel: Index, sums: Mapping[str, Buffer]) -> list[Statement]:
        """Multiply the hidden states by a panel: W h, and W h_t + W_t h."""
        products = [*super().compute_sums(panel, sums),
                    self.multiply_panel(panel, "h_t", "panels", sums["h_t"])]
        if "panels_t" in self.inputs:
            products.append(self.multiply_panel(panel, "h", "panels_t", sums["h_t"], add=True))
        return products

    def compute_units(self, row: Index, unit: Index, columns: Terms, sums: Mapping[str, Buffer],
                      mask: Expression | None) -> list[Statement]:
        """Apply the cell to the duals of a panel's units; store the new states and the results."""
        values = self.read_values(row, unit, columns, sums, mask)
        tangents = self.read_values(row, unit, columns, sums, mask, "_t")
        pairs = {name: _pair(value, tangents[name]) if name in tangents else value
                 for name, value in values.items()}
        results = self.cell.forward(pairs)
        new = {"h": results["y"][0]}
        if self.cell.carries:
            new["c"] = results["cells"][0]
        stores: list[Statement] = []
        for ending, read in (("", _get_value), ("_t", _get_tangent)):
            y = read(new["h"])
            stores.append(self.store_own(self.new[f"h{ending}"], row, columns, y))
            stores += self.stores(f"y{ending}", self.step, row, columns, mask, [y])
        if self.cell.carries:  # comes last: earlier stores read the old state
            c = new["c"]
            for ending, read in (("_t", _get_tangent), ("", _get_value)):
                stores.append(self.store_own(self.states[f"c{ending}"], row, columns, read(c)))
        return stores


def _get_value(dual: Value) -> Value:
    return Value(dual.expression)


def _get_tangent(dual: Value) -> Value:
    assert dual.tangent is not None  # the sums carry one
    return dual.tangent


def _pair(value: Value | list[Value], tangent: Value | list[Value]) -> Value | list[Value]:
    if isinstance(value, list) and isinstance(tangent, list):
        return [Dual(v, t) for v, t in zip(value, tangent, strict=True)]
    return Dual(value, tangent)  # type: ignore[arg-type]
