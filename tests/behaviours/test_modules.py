"""Modules, losses, checkpoints: lines 25 to 31 of the behaviours."""

from __future__ import annotations

import pickle

import pytest


def test_line_25_module_and_function_agree(torch):
    nn, F = torch.nn, torch.nn.functional
    x = torch.randn(4, 3, 8, 8)
    convolution, norm, linear = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(3), nn.Linear(8, 2)
    mean, variance = norm.running_mean.clone(), norm.running_var.clone()
    pairs = [
        (nn.ReLU()(x), F.relu(x)),
        (nn.GELU()(x), F.gelu(x)),
        (nn.Softmax(1)(x), F.softmax(x, 1)),
        (nn.MaxPool2d(2)(x), F.max_pool2d(x, 2)),
        (convolution(x), F.conv2d(x, convolution.weight, convolution.bias)),
        (linear(x), F.linear(x, linear.weight, linear.bias)),
        (norm(x), F.batch_norm(x, mean, variance, norm.weight, norm.bias, training=True)),
        (nn.MSELoss()(x, -x), F.mse_loss(x, -x)),
    ]
    for module, function in pairs:
        assert torch.equal(module, function)
    assert torch.equal(mean, norm.running_mean)


def test_line_25_a_function_is_no_module(torch):
    with pytest.raises(TypeError, match="relu is not a Module subclass"):
        torch.nn.Sequential(torch.nn.functional.relu)


@pytest.mark.parametrize("switch", [lambda m: m.eval(), lambda m: m.train(False)])
def test_line_26_eval_switches_the_layers(torch, switch):
    nn = torch.nn
    x = torch.randn(16, 8)
    dropout, norm, rrelu = nn.Dropout(0.5), nn.BatchNorm1d(8), nn.RReLU()
    model = nn.ModuleList([dropout, norm, rrelu])
    assert dropout(x).eq(0).any()
    norm(x)
    tracked = norm.num_batches_tracked.item()

    assert switch(model) is model
    assert not any(m.training for m in model.modules())
    assert torch.equal(dropout(x), x)
    expected = (x - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
    assert torch.allclose(norm(x), expected, atol=1e-6)
    assert norm.num_batches_tracked.item() == tracked == 1
    slope = (1 / 8 + 1 / 3) / 2
    assert torch.allclose(rrelu(x), torch.where(x >= 0, x, x * slope))
    # It is no_grad that stops recording, not eval.
    assert norm(x).requires_grad
    assert torch.is_grad_enabled()


def test_line_26_functional_dropout_does_not_know_the_module(torch):
    class Careless(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.dropout(x, 0.5)

    x = torch.ones(1000)
    out = Careless().eval()(x)
    assert out.eq(0).any()
    assert out.max().item() == 2.0
    assert torch.equal(torch.nn.functional.dropout(x, 0.2, False), x)


def test_line_27_losses_of_one_set_of_logits(torch):
    F = torch.nn.functional
    logits = torch.tensor([[1.7759, 0.0, -0.7757], [1.0405, 0.0, -0.7757]])
    target = torch.tensor([0, 0])
    near = {"abs": 1e-4}
    assert F.cross_entropy(logits, target).item() == pytest.approx(0.3185, **near)
    assert F.nll_loss(F.log_softmax(logits, 1), target).item() == pytest.approx(0.3185, **near)
    # The two wrong pairings give a number all the same.
    assert F.nll_loss(F.softmax(logits, 1), target).item() == pytest.approx(-0.7307, **near)
    assert F.cross_entropy(F.softmax(logits, 1), target).item() == pytest.approx(0.7450, **near)
    x, y = torch.randn(3, 4), torch.rand(3, 4)
    together = F.binary_cross_entropy_with_logits(x, y)
    apart = F.binary_cross_entropy(torch.sigmoid(x), y)
    assert torch.allclose(together, apart)


def small(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def same_weights(torch, model, other):
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_line_28_names_and_round_trip(torch):
    model, other = small(torch), small(torch)
    names = [name for name, _ in model.named_parameters()]
    assert names == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert list(model.state_dict()) == names
    result = other.load_state_dict(model.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    assert same_weights(torch, model, other)


def test_line_28_strict_errors(torch):
    model = small(torch)
    state = model.state_dict()
    state["extra"] = state.pop("0.bias")
    state["2.weight"] = torch.zeros(5, 5)
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(state)
    message = str(caught.value)
    assert message.startswith("Error(s) in loading state_dict for Sequential:")
    assert 'Missing key(s) in state_dict: "0.bias"' in message
    assert 'Unexpected key(s) in state_dict: "extra"' in message
    assert "size mismatch for 2.weight" in message
    assert "torch.Size([5, 5])" in message
    assert "torch.Size([2, 4])" in message
    del state["2.weight"]
    result = model.load_state_dict(state, strict=False)
    assert result.missing_keys == ["0.bias", "2.weight"]
    assert result.unexpected_keys == ["extra"]


def test_line_29_replacing_a_layer(torch):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(6, 512)
            self.fc = nn.Linear(512, 10)

        def forward(self, x):
            return self.fc(self.body(x))

    model = Net()
    for parameter in model.parameters():
        parameter.requires_grad = False
    model.fc = nn.Linear(512, 100)
    trainable = [name for name, p in model.named_parameters() if p.requires_grad]
    assert trainable == ["fc.weight", "fc.bias"]
    model(torch.ones(2, 6)).sum().backward()
    assert model.body.weight.grad is None
    assert model.fc.weight.grad.shape == (100, 512)


def test_line_30_state_dict_on_disk(torch, tmp_path):
    model, other = small(torch), small(torch)
    path = tmp_path / "model.pt"
    torch.save(model.state_dict(), path)
    other.load_state_dict(torch.load(path))
    assert same_weights(torch, model, other)


def test_line_30_whole_models_need_weights_only_false(torch, tmp_path):
    path = tmp_path / "model.pt"
    model = small(torch)
    torch.save(model, path)
    with pytest.raises(pickle.UnpicklingError, match=r"(?s)weights_only.*False"):
        torch.load(path)
    loaded = torch.load(path, weights_only=False)
    x = torch.ones(1, 3)
    assert torch.equal(loaded(x), model(x))


def test_line_31_variable(torch):
    variable = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    assert isinstance(variable, torch.Tensor)
    assert type(variable) is torch.Tensor
    assert variable.requires_grad
    (variable * 3).sum().backward()
    assert variable.grad.tolist() == [3.0, 3.0]
