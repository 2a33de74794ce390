"""Programs of segments: where their inputs lie."""

from __future__ import annotations

import flambeau as torch


def test_a_program_built_while_an_input_lies_further_on_reads_the_right_row() -> None:
    table = torch.arange(24.0).reshape(8, 3)
    seen: list[float] = []

    def step(x, row, stops):
        y = table[row] * x
        seen.append(y.sum().item() if stops else 0.0)  # keeps its Python, and ends a segment
        return y + 1

    followed = torch.compile(step, options={"mode": "now", "follow": True})
    x = torch.ones(3)
    for row, stops in [(0, False)] * 6 + [(5, True)] * 4 + [(2, True), (0, True), (7, True)]:
        y = followed(x, row, stops)
        assert (y - 1).tolist() == table[row].tolist()
        assert seen[-1] == (table[row].sum().item() if stops else 0.0)
    assert "is followed" in followed.explain()
