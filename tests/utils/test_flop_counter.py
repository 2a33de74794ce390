"""FlopCounterMode: PyTorch's numbers on a CPU."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.utils.flop_counter import FlopCounterMode


def counts(call, **options):
    with FlopCounterMode(display=False, **options) as counter:
        call()
    result = counter.get_flop_counts()
    return counter.get_total_flops(), {
        name: {str(op): n for op, n in ops.items()} for name, ops in result.items()
    }


A = torch.ones(4, 5, requires_grad=True)
B = torch.ones(5, 6, requires_grad=True)


@pytest.mark.parametrize("call, want", [
    (lambda: A @ B, {"aten.mm": 240}),
    (lambda: (A @ B).sum().backward(), {"aten.mm": 720}),
    (lambda: torch.addmm(torch.ones(4, 6), A, B), {"aten.addmm": 240}),
    (lambda: torch.ones(2, 3, 4) @ torch.ones(2, 4, 5), {"aten.bmm": 240}),
    (lambda: torch.ones(3, 4) @ torch.ones(4), {}),
    (lambda: torch.baddbmm(torch.ones(2, 3, 5), torch.ones(2, 3, 4), torch.ones(2, 4, 5)),
     {"aten.baddbmm": 240}),
])
def test_products(call, want):
    assert counts(call) == (sum(want.values()), {"Global": want})


def test_layers_forward_and_backward():
    linear = nn.Linear(5, 6)
    both = {"aten.addmm": 240, "aten.mm": 480}
    assert counts(lambda: linear(A).sum().backward())[1] == {"Global": both, "Linear": both}
    x = torch.ones(2, 3, 8, 8, requires_grad=True)
    conv = nn.Conv2d(3, 8, 3, padding=1)
    both = {"aten.convolution": 55296, "aten.convolution_backward": 110592}
    assert counts(lambda: conv(x).sum().backward())[1]["Conv2d"] == both
    turned = nn.ConvTranspose2d(3, 4, 2, stride=2)
    both = {"aten.convolution": 12288, "aten.convolution_backward": 24576}
    assert counts(lambda: turned(x).sum().backward())[1]["Global"] == both
    grouped = nn.Conv2d(4, 8, 3, groups=2, stride=2)
    assert counts(lambda: grouped(torch.ones(2, 4, 8, 8)))[0] == 5184


def test_modules_by_name_and_the_table(capsys):
    net = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2))
    total, actual = counts(lambda: net(A).sum().backward())
    assert total == 1008
    assert actual["Sequential.0"] == {"aten.addmm": 240, "aten.mm": 480}
    assert actual["Sequential.2"] == {"aten.addmm": 96, "aten.mm": 192}
    with FlopCounterMode():
        net(A)
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["Module", "FLOP", "%", "Total"]
    assert any(line.split()[-1] == "71.43%" and "Sequential.0" in line for line in shown)


def test_everything_is_put_back():
    before = A.matmul.__func__.__code__
    with FlopCounterMode(display=False):
        pass
    assert A.matmul.__func__.__code__ is before
    with pytest.raises(NotImplementedError, match="custom_mapping"):
        FlopCounterMode(custom_mapping={1: 2})
