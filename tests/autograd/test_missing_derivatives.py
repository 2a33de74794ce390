"""Results whose derivative nobody has written require grad, and backward says so by name."""

from __future__ import annotations

import pytest


def _symmetric(torch):
    return torch.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)


def _weights(torch):
    return torch.tensor([0.5, 0.25, 0.5], requires_grad=True)


# What is computed, and PyTorch's name of it in the error.
LISTED = [
    (lambda torch: torch.unique(_weights(torch)), "_unique2"),
    (lambda torch: torch.unique(_weights(torch), return_inverse=True)[0], "_unique2"),
    (lambda torch: torch.unique(_weights(torch), return_counts=True)[0], "_unique2"),
    (lambda torch: _symmetric(torch).unique(dim=0), "unique_dim"),
    (lambda torch: torch.unique_consecutive(_weights(torch)), "unique_consecutive"),
    (lambda torch: torch.unique_consecutive(_symmetric(torch), dim=1), "unique_consecutive"),
    (lambda torch: torch.geqrf(_symmetric(torch)).a, "geqrf"),
    (lambda torch: torch.igamma(_weights(torch), torch.ones(3)), "igamma: input"),
    (lambda torch: torch.special.zeta(_weights(torch) + 1, torch.ones(3)), "zeta"),
]
UNLISTED = [
    (lambda torch: torch.heaviside(_weights(torch), torch.ones(3)), "heaviside"),
    (lambda torch: torch.heaviside(torch.zeros(3), _weights(torch)), "heaviside"),
    (lambda torch: torch.histogram(_weights(torch), 2).hist, "histogram"),
    (lambda torch: torch.histogram(torch.ones(3), 2, weight=_weights(torch)).hist, "histogram"),
    (lambda torch: torch.histogramdd(_symmetric(torch), 2).hist, "_histogramdd_from_bin_cts"),
    (lambda torch: torch.bincount(torch.tensor([0, 1, 1]), _weights(torch)), "bincount"),
    (lambda torch: torch.binomial(torch.ones(3), _weights(torch)), "binomial"),
    (lambda torch: torch.linalg.ldl_factor(_symmetric(torch)).LD, "linalg_ldl_factor_ex"),
    (lambda torch: torch.floor_divide(_weights(torch), 2), "floor_divide"),
]


@pytest.mark.parametrize("compute, name", LISTED, ids=[name for _, name in LISTED])
def test_what_is_listed_raises_not_implemented(torch, compute, name):
    y = compute(torch)
    assert y.requires_grad and y.grad_fn is not None
    with pytest.raises(NotImplementedError, match=f"^the derivative for '{name}' is not impl"):
        y.sum().backward()


@pytest.mark.parametrize("compute, name", UNLISTED, ids=[name for _, name in UNLISTED])
def test_what_is_not_listed_raises_as_well(torch, compute, name):
    y = compute(torch)
    assert y.requires_grad and type(y.grad_fn).__name__ == "NotImplemented"
    with pytest.raises(RuntimeError, match=f"^derivative for aten::{name} is not implemented"):
        y.sum().backward()


def test_whole_numbers_and_no_grad_have_no_history(torch):
    x = torch.tensor([1.0, 2.0, 1.0], requires_grad=True)
    _, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    assert not inverse.requires_grad and not counts.requires_grad
    with torch.no_grad():
        assert not torch.unique(x).requires_grad
    assert not torch.unique(x.detach()).requires_grad


def test_a_tangent_is_not_lost(torch):
    with pytest.raises(NotImplementedError, match="forward AD with _unique2 that does not support"):
        torch.func.jvp(torch.unique, (torch.ones(2),), (torch.ones(2),))


def test_losses_refuse_weights_that_require_grad(torch):
    functional = torch.nn.functional
    x, weight = torch.zeros(2, 3), torch.ones(3, requires_grad=True)
    target = torch.tensor([0, 2])
    text = "The function '{}' is not differentiable with respect to argument '{}'. This input"
    with pytest.raises(RuntimeError, match=text.format("nll_loss_forward", "weight")):
        functional.nll_loss(x, target, weight)
    with pytest.raises(RuntimeError, match=text.format("nll_loss_forward", "weight")):
        functional.cross_entropy(x, target, weight)
    with pytest.raises(RuntimeError, match=text.format("nll_loss2d_forward", "weight")):
        functional.cross_entropy(torch.zeros(2, 3, 4, 4), torch.zeros(2, 4, 4).long(), weight)
    with pytest.raises(RuntimeError, match=text.format("binary_cross_entropy", "weight")):
        functional.binary_cross_entropy(x, x, weight)
    with pytest.raises(RuntimeError, match=text.format("native_batch_norm", "running_mean")):
        functional.batch_norm(x, weight, torch.ones(3))


def test_the_rest_of_least_squares_requires_grad(torch):
    result = torch.linalg.lstsq(torch.rand(3, 2, requires_grad=True), torch.rand(3, 1))
    assert result.residuals.shape == (0,) and result.residuals.requires_grad
