"""custom_translation_table: operators that functions of onnxscript convert to ONNX."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch

onnxscript = pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")


@torch.library.custom_op("translations::gate", mutates_args=())
def gate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """An operator that ONNX lacks."""
    return x.sigmoid() * y + 1


@gate.register_fake
def _(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Gated(torch.nn.Module):
    """A module with an operator of the program's and one of aten's."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Compute it."""
        return torch.ops.translations.gate(x, y) - torch.relu(x)


op = onnxscript.opset18


@onnxscript.script()
def scripted(x, y):  # type: ignore[no-untyped-def]
    """Call operators of an opset; onnxscript reads the source."""
    return op.Add(op.Mul(op.Sigmoid(x), y), 7.0)


def plain(x: Any, y: Any) -> Any:
    """Call operators of an opset, and Python's."""
    return op.Mul(op.Sigmoid(x), y) + 7.0


def test_python_functions_and_functions_of_onnxscript_write_nodes() -> None:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    expected = Gated()(x, y) + 6  # the translations add 7 instead of 1
    for function in (plain, scripted, [plain]):
        table = {torch.ops.translations.gate.default: function}
        program = torch.onnx.export(Gated(), (x, y), custom_translation_table=table)
        kinds = [node.op_type for node in program.model_proto.graph.node]
        assert kinds.count("Sigmoid") == 1
        torch.testing.assert_close(program(x, y)[0], expected)


def test_operators_of_aten_and_attributes() -> None:
    program = torch.onnx.export(
        Gated(), (torch.ones(2), torch.ones(2)), custom_translation_table={
            torch.ops.translations.gate.default: plain,
            torch.ops.aten.relu.default: lambda x: op.LeakyRelu(x, alpha=0.5)})
    kinds = {node.op_type: node for node in program.model_proto.graph.node}
    assert "Relu" not in kinds
    assert kinds["LeakyRelu"].attribute[0].f == 0.5
    y = program(torch.tensor([-2.0, 2.0]), torch.zeros(2))[0]
    torch.testing.assert_close(y, torch.tensor([8.0, 5.0]))
