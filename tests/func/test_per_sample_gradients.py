"""call_for_per_sample_grads: `grad_sample` is the gradient of one example at a time."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.utils._per_sample_grad import call_for_per_sample_grads

MODELS = {
    "linear": (lambda: nn.Linear(4, 3), (5, 4)),
    "convolution": (lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)
    ), (5, 2, 4, 4)),
    "norms": (lambda: nn.Sequential(nn.LayerNorm(6), nn.Unflatten(1, (2, 3)),
                                    nn.InstanceNorm1d(2, affine=True)), (5, 6)),
}


def one_by_one(model, x, axis=0):
    """The gradients of each example's squared outputs."""
    gradients = {name: [] for name, _ in model.named_parameters()}
    for example in x.split(1, axis):
        model.zero_grad()
        model(example).square().sum().backward()
        for name, parameter in model.named_parameters():
            gradients[name].append(parameter.grad.clone())
    model.zero_grad(set_to_none=True)
    return {name: torch.stack(grads) for name, grads in gradients.items()}


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_each_example(name, reduction):
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model, x = make(), torch.randn(shape)
    wanted = one_by_one(model, x)
    y = call_for_per_sample_grads(model, loss_reduction=reduction)(x)
    torch.testing.assert_close(y, model(x))
    loss = y.square().flatten(1).sum(1)
    (loss.sum() if reduction == "sum" else loss.mean()).backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is None
        torch.testing.assert_close(parameter.grad_sample, wanted[path])


def test_a_layer_used_twice_and_a_frozen_one():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.frozen = nn.Linear(3, 3), nn.Linear(3, 3).requires_grad_(False)

        def forward(self, x, *, scale):
            return self.frozen(self.layer(self.layer(x).tanh())) * scale

    model, x = Twice(), torch.randn(4, 3)
    with torch.no_grad():
        model.frozen.weight.copy_(torch.eye(3)).mul_(2)
    call_for_per_sample_grads(model, batch_size=4)(x, scale=torch.tensor(3.)).sum().backward()
    assert not hasattr(model.frozen.weight, "grad_sample")
    for at in range(4):
        model.zero_grad()
        model(x[at:at + 1], scale=3).sum().backward()
        torch.testing.assert_close(model.layer.weight.grad_sample[at], model.layer.weight.grad)


def test_the_batch_on_the_second_axis_and_gradients_of_the_input():
    model, x = nn.Linear(3, 2), torch.randn(6, 4, 3, requires_grad=True)
    wanted = one_by_one(model, x.detach(), axis=1)
    y = call_for_per_sample_grads(model, batch_first=False)(x)
    assert y.shape == (6, 4, 2)
    y.square().sum().backward()
    torch.testing.assert_close(model.weight.grad_sample, wanted["weight"])
    torch.testing.assert_close(x.grad, 2 * y.detach() @ model.weight.detach())


def test_refusals():
    layer, x = nn.Linear(2, 2), torch.ones(3, 2)
    for arguments, message in [
        ({"loss_reduction": "max"}, "Expected loss_reduction argument to be sum or mean, got max"),
        ({"batch_size": 2.}, "Batch size passed must be None or an integer, got float"),
        ({"batch_size": 0}, "Batch size must be positive, got 0"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            call_for_per_sample_grads(layer, **arguments)
    with pytest.raises(RuntimeError, match=r"Module passed must be nn.Module, got function"):
        call_for_per_sample_grads(lambda x: x)
    with pytest.raises(RuntimeError, match="one input with batch size 3 and one with batch size 4"):
        call_for_per_sample_grads(nn.Bilinear(2, 2, 2))(x, torch.ones(4, 2))
    with pytest.raises(RuntimeError, match="Unable to find a tensor in the passed args"):
        call_for_per_sample_grads(layer)(3)
    call_for_per_sample_grads(layer)(x).sum().backward()
    with pytest.raises(RuntimeError, match="accumulates the gradients, which will be incorrect"):
        call_for_per_sample_grads(layer)
