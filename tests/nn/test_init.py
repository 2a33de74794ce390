"""Initialisers: PyTorch's numbers for the same seed, gains, and what they refuse."""

from __future__ import annotations

import math

import pytest

# Name, arguments, shape; each with what `parity` and the statistics below look at.
RANDOM = [
    ("uniform_", (-2.0, 3.0), (4, 5)),
    ("normal_", (1.0, 2.0), (4, 5)),
    ("trunc_normal_", (), (7, 9)),
    ("trunc_normal_", (0.0, 1.0, 2.5, 4.0), (7, 9)),
    ("xavier_uniform_", (1.5,), (4, 5)),
    ("xavier_normal_", (), (4, 5, 3)),
    ("kaiming_uniform_", (math.sqrt(5),), (4, 5, 3, 3)),
    ("kaiming_normal_", (0, "fan_out", "relu"), (4, 5)),
    ("sparse_", (0.3,), (10, 4)),
    ("orthogonal_", (2.0,), (4, 6)),
    ("orthogonal_", (), (6, 2, 2)),
]


def test_gains(nn):
    gain = nn.init.calculate_gain
    assert gain("linear") == gain("conv2d") == gain("sigmoid") == 1
    assert gain("tanh") == 5 / 3
    assert gain("relu") == math.sqrt(2)
    assert gain("selu") == 0.75
    assert gain("leaky_relu") == math.sqrt(2 / (1 + 0.01**2))
    assert gain("leaky_relu", 3) == math.sqrt(0.2)
    with pytest.raises(ValueError, match="Unsupported nonlinearity mish"):
        gain("mish")
    with pytest.raises(ValueError, match="negative_slope True not a valid number"):
        gain("leaky_relu", True)


def test_constants(torch, nn):
    w = torch.empty(2, 3)
    assert nn.init.constant_(w, 4.0) is w
    assert w.tolist() == [[4.0] * 3] * 2
    assert nn.init.ones_(w)[0, 0] == 1
    assert nn.init.zeros_(w)[0, 0] == 0
    assert nn.init.eye_(w).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


def test_dirac(torch, nn):
    w = nn.init.dirac_(torch.empty(4, 2, 3), groups=2)
    assert w.nonzero().tolist() == [[0, 0, 1], [1, 1, 1], [2, 0, 1], [3, 1, 1]]
    wide = nn.init.dirac_(torch.empty(3, 2, 2, 3))
    assert wide.nonzero().tolist() == [[0, 0, 1, 1], [1, 1, 1, 1]]
    with pytest.raises(ValueError, match="dim 0 must be divisible by groups"):
        nn.init.dirac_(w, groups=3)
    with pytest.raises(ValueError, match="Only tensors with 3, 4, or 5 dimensions are supported"):
        nn.init.dirac_(torch.empty(2, 2))


def test_parameters_are_filled_without_a_graph(torch, nn):
    w = nn.Parameter(torch.empty(3, 4))
    for fill in (nn.init.ones_, nn.init.xavier_uniform_, nn.init.kaiming_normal_):
        assert fill(w) is w
        assert w.is_leaf
        assert w.requires_grad


def test_bounds(torch, nn):
    w = torch.empty(30, 50)
    assert nn.init.xavier_uniform_(w).abs().max() <= math.sqrt(6 / 80)
    assert nn.init.kaiming_uniform_(w, nonlinearity="relu").abs().max() <= math.sqrt(6 / 50)
    assert nn.init.trunc_normal_(w, std=2.0).abs().max() <= 2
    assert nn.init.trunc_normal_(w, 0.0, 1.0, 3.0, 4.0).min() >= 3


def test_sparse(torch, nn):
    zeros = (nn.init.sparse_(torch.empty(10, 4), 0.25) == 0).sum(0)
    assert zeros.tolist() == [3, 3, 3, 3]


def test_orthogonal(torch, nn):
    w = nn.init.orthogonal_(torch.empty(3, 2, 4), gain=2.0).reshape(3, 8)
    assert torch.allclose(w @ w.T, 4 * torch.eye(3), atol=1e-5)


def test_generator_is_used(torch, nn):
    first, second = (
        nn.init.xavier_normal_(torch.empty(3, 3), generator=torch.Generator().manual_seed(5))
        for _ in range(2)
    )
    assert first.tolist() == second.tolist()


def test_refusals_and_warnings(torch, nn):
    vector = torch.empty(3)
    with pytest.raises(ValueError, match="can not be computed for tensor with fewer than 2"):
        nn.init.xavier_uniform_(vector)
    with pytest.raises(ValueError, match="Mode sideways not supported"):
        nn.init.kaiming_normal_(torch.empty(2, 2), mode="sideways")
    for refuse in (nn.init.eye_, lambda t: nn.init.sparse_(t, 0.1)):
        with pytest.raises(ValueError, match="Only tensors with 2 dimensions are supported"):
            refuse(vector)
    with pytest.raises(ValueError, match="Only tensors with 2 or more dimensions are supported"):
        nn.init.orthogonal_(vector)
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        nn.init.kaiming_uniform_(torch.empty(0, 2))
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        nn.init.trunc_normal_(torch.empty(3), mean=10.0)
    with pytest.warns(FutureWarning, match=r"`nn.init.uniform` is now deprecated in favor of"):
        nn.init.uniform(vector)


@pytest.mark.parametrize(("name", "arguments", "shape"), RANDOM)
@pytest.mark.parity
def test_same_numbers(own, name, arguments, shape):
    torch = pytest.importorskip("torch")
    drawn = []
    for library in (torch, own):
        library.manual_seed(3)
        fill = getattr(library.nn.init, name)
        w = fill(library.empty(shape), *arguments)
        # The number drawn next tells whether as many were taken.
        drawn.append([*w.reshape(-1).tolist(), library.rand(1).item()])
    assert drawn[1] == pytest.approx(drawn[0], abs=1e-6 if name == "orthogonal_" else 1e-12)
