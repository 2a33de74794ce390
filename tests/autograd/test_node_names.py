"""Nodes have PyTorch's names: users read them in printed tensors, tools in graphs."""

from __future__ import annotations

from typing import Any

import pytest

CASES = {
    # Overloads with nodes of their own.
    "x.sum()": "SumBackward0", "x.sum(0)": "SumBackward1", "x.mean((0, 1))": "MeanBackward1",
    "x.prod(0)": "ProdBackward1", "1 - x": "RsubBackward1", "x - 1": "SubBackward0",
    "torch.rsub(x, y)": "RsubBackward0", "1 / x": "MulBackward0", "x / y": "DivBackward0",
    "2 ** x": "PowBackward2", "x ** y": "PowBackward1", "x ** 2": "PowBackward0",
    "x % 2": "RemainderBackward0", "x % y": "RemainderBackward1", "x.fmod(y)": "FmodBackward1",
    "torch.lerp(x, y, y)": "LerpBackward1", "torch.xlogy(2, x)": "XlogyBackward1",
    "x.masked_fill(y > 0, y[0, 0])": "MaskedFillBackward1",
    "x.scatter(0, index, 1.)": "ScatterBackward1", "x.scatter(0, index, y)": "ScatterBackward0",
    "x.index_fill(0, index[0], 1.)": "IndexFillBackward0", "x.clamp_min(y)": "ClampMinBackward1",
    "x.squeeze()": "SqueezeBackward0", "x.squeeze((0, 1))": "SqueezeBackward2",
    "x.split(1)[0]": "SplitBackward0", "x.split([1, 2])[0]": "SplitWithSizesBackward0",
    # Products by the operands' axes.
    "x @ x": "MmBackward0", "x @ x[0]": "MvBackward0", "x[0] @ x[0]": "DotBackward0",
    "x[0] @ x": "SqueezeBackward4", "x[None] @ x": "UnsafeViewBackward0",
    "torch.bmm(x[None], x[None])": "BmmBackward0", "F.linear(x, x)": "MmBackward0",
    "F.linear(x, x, x[0])": "AddmmBackward0", "F.linear(x[None], x, x[0])": "ViewBackward0",
    # Indices by their last step.
    "x[0]": "SelectBackward0", "x[:]": "SliceBackward0", "x[:, 0]": "SelectBackward0",
    "x[0, :2]": "SliceBackward0", "x[None]": "UnsqueezeBackward0", "x[..., 0]": "SelectBackward0",
    "x[:, None]": "UnsqueezeBackward0", "x[...]": "AliasBackward0",
    "x.T": "PermuteBackward0", "x.H": "TransposeBackward0", "x.t()": "TBackward0",
    "x.reshape(9)": "ViewBackward0",
    # Names with digits, and in torch.special.
    "x.log1p()": "Log1PBackward0", "torch.deg2rad(x)": "Deg2RadBackward0",
    "torch.special.i0e(x)": "SpecialI0EBackward0", "x.expm1()": "Expm1Backward0",
    # Differentiated as a whole.
    "torch.var_mean(x)[1]": "VarMeanBackward0", "torch.kron(x, x)": "UnsafeViewBackward0",
    "torch.addr(x, x[0], x[0])": "AddrBackward0", "x.rot90()": "Rot90Backward0",
    "torch.block_diag(x, x)": "BlockDiagBackward0", "x.dist(y)": "DistBackward0",
    "torch.aminmax(x)[1]": "AminmaxBackward0", "F.celu(x)": "CeluBackward0",
    "F.pad(x, (1, 1), 'reflect')": "ReflectionPad1DBackward0",
    "F.interpolate(x[None, None], scale_factor=2)": "UpsampleNearest2DBackward0",
    "F.interpolate(x[None, None], scale_factor=2, mode='bilinear')": "UpsampleBilinear2DBackward0",
    "F.grid_sample(x[None, None], y.view(1, 3, 3, 1).expand(1, 3, 3, 2), align_corners=False)":
        "GridSampler2DBackward0",
}


@pytest.mark.parametrize("expression", CASES)
def test_a_node_has_pytorch_s_name(torch: Any, expression: str) -> None:
    names = {
        "torch": torch, "F": torch.nn.functional,
        "x": torch.linspace(0.5, 1.5, 9).view(3, 3).requires_grad_(),
        "y": torch.linspace(0.1, 0.9, 9).view(3, 3), "index": torch.zeros(1, 3, dtype=torch.long),
    }
    y = eval(expression, names)
    assert type(y.grad_fn).__name__ == y.grad_fn.name() == CASES[expression]
    y.sum().backward()
    assert names["x"].grad is not None


def test_composites_that_return_their_argument_do_not_rename_its_node(torch: Any) -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    assert torch.block_diag(y).grad_fn.name() == "BlockDiagBackward0"
    assert y.grad_fn.name() == "MulBackward0"


@pytest.mark.parametrize("name", ["T", "mT", "H", "mH"])
def test_transposes_of_scalars_warn(torch: Any, name: str) -> None:
    x = torch.tensor(1.5)
    assert getattr(x, name).item() == 1.5
    with pytest.raises(RuntimeError, match="matrices"):
        torch.ones(3).mT  # noqa: B018
