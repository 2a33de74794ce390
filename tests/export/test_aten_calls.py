"""Calls in exported graphs have the overloads and arguments that PyTorch's have."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau
from flambeau.nn import functional as F

# By name: a call of torch on x (2, 3, 4) or, where the name ends in 2d, on x (1, 3, 2, 2).
CALLS = {
    "sum": lambda torch, x: x.sum(-1),
    "sum of axes": lambda torch, x: x.sum(dim=(0, 1), keepdim=True),
    "mean": lambda torch, x: x.mean(1, keepdim=True),
    "amax": lambda torch, x: x.amax(-1),
    "flip": lambda torch, x: x.flip(-1),
    "roll": lambda torch, x: x.roll(1, -1),
    "squeeze": lambda torch, x: x.squeeze(()),
    "add with alpha": lambda torch, x: torch.add(x, x, alpha=2),
    "number": lambda torch, x: (x * 2 + 1) ** 2,
    "clamp": lambda torch, x: x.clamp(min=0),
    "round": lambda torch, x: x.round(decimals=1),
    "divide": lambda torch, x: torch.div(x, 2, rounding_mode="floor"),
    "softmax": lambda torch, x: x.softmax(-1),
    "gelu": lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
    "real": lambda torch, x: x.real,
    "avg_pool1d": lambda torch, x: torch.nn.functional.avg_pool1d(x, 2),
    "max_pool 2d": lambda torch, x: torch.nn.functional.max_pool2d(x, 2),
    "strided max_pool 2d": lambda torch, x: torch.nn.functional.max_pool2d(x, 2, 1, padding=1),
    "conv 2d": lambda torch, x: torch.nn.functional.conv2d(x, torch.ones(2, 3, 2, 2), padding=1),
}


def list_calls(torch: Any, name: str) -> list[tuple[str, str, str]]:
    """Return target, arguments and keywords of each call in the exported graph."""

    class Program(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return CALLS[name](torch, x)

    x = torch.ones(1, 3, 2, 2) if name.endswith("2d") else torch.ones(2, 3, 4)
    graph = torch.export.export(Program(), (x,)).graph
    return [(str(n.target), str(n.args), str(n.kwargs)) for n in graph.nodes
            if n.op == "call_function"]


@pytest.mark.parity
@pytest.mark.parametrize("name", list(CALLS))
def test_calls_are_pytorchs(name: str) -> None:
    import torch

    assert list_calls(flambeau, name) == list_calls(torch, name)


class Applied(flambeau.nn.Module):
    """Calls a function on its input."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


@pytest.mark.parametrize("function", [
    F.glu, F.normalize, lambda x: flambeau.stft(x, 4, return_complex=True).abs(),
    lambda x: x.to(flambeau.float64, memory_format=flambeau.contiguous_format),
    lambda x: F.triplet_margin_with_distance_loss(
        x, x * 2, x * 3, distance_function=flambeau.nn.PairwiseDistance()),
])
def test_programs_compute_with_their_inputs(function: Any) -> None:
    program = flambeau.export.export(Applied(function), (flambeau.rand(2, 20),)).module()
    x = flambeau.rand(2, 20)
    flambeau.testing.assert_close(program(x), function(x))


WRITES = {
    "row": (lambda torch, x: x.__setitem__(0, 4.0), "select fill_"),
    "part": (lambda torch, x: x.__setitem__((slice(1, 3), -1), x[:2, 0]),
             "slice select slice select copy_"),
    "all": (lambda torch, x: x.__setitem__(..., x.sum()), "sum copy_"),
    "mask": (lambda torch, x: x.__setitem__(x > 0, 1), "gt scalar_tensor index_put_"),
    "rows": (lambda torch, x: x.__setitem__([0, 2], torch.ones(4)), None),
    "axis": (lambda torch, x: x.__setitem__((None, 0), torch.zeros(1, 4)), None),
}


@pytest.mark.parametrize("name", list(WRITES))
def test_writes_to_elements_are_calls_of_aten(torch, name):
    write, expected = WRITES[name]

    class Writes(torch.nn.Module):
        def forward(self, x):
            y = x * 1
            write(torch, y)
            return y, y[0] + 1

    varying = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(Writes(), (torch.randn(3, 4),), dynamic_shapes=varying)
    x = torch.randn(6, 4)
    for variant in (program, program.run_decompositions()):
        for computed, wanted in zip(variant.module()(x), Writes()(x), strict=True):
            assert torch.equal(computed, wanted)
    if torch.__name__ != "torch" and expected is not None:  # PyTorch's scalars are constants
        calls = [node.target.overloadpacket.__name__ for node in program.graph.nodes
                 if node.op == "call_function" and hasattr(node.target, "overloadpacket")]
        assert " ".join(calls) == f"mul {expected} select add"
