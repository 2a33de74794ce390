"""Grad modes, detached parts, accumulation and optimizers: lines 11 to 17 of the behaviours."""

from __future__ import annotations

import threading

import pytest


def test_line_11_detached_copy_gets_its_own_grad(torch):
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = a.sigmoid()
    c = out.detach().requires_grad_()
    (c * 2).sum().backward()
    assert c.grad.tolist() == [2.0, 2.0, 2.0]
    assert a.grad is None


def test_line_11_backward_on_a_detached_tensor(torch):
    a = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        a.sigmoid().detach().sum().backward()


def test_line_12_no_grad_cuts(torch):
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        y = x * 2
    assert not y.requires_grad
    z = (x * y).sum()
    z.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_line_12_frozen_parameter_lets_gradients_through(torch):
    layer = torch.nn.Linear(2, 1)
    layer.weight.requires_grad = False
    x = torch.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    assert layer.weight.grad is None
    assert x.grad.tolist() == layer.weight.tolist()


def test_line_12_what_is_made_under_no_grad(torch):
    with torch.no_grad():
        result = torch.ones(2, requires_grad=True)
        parameter = torch.nn.Parameter(torch.ones(2))
        computed = result * 2
    assert result.requires_grad
    assert parameter.requires_grad
    assert not computed.requires_grad


def test_line_12_decorators_and_nesting(torch):
    @torch.no_grad()
    def outer(x):
        inside = [torch.is_grad_enabled(), (x * 2).requires_grad]
        with torch.enable_grad():
            inside += [torch.is_grad_enabled(), (x * 2).requires_grad]
            with torch.set_grad_enabled(False):
                inside.append(torch.is_grad_enabled())
        inside.append(torch.is_grad_enabled())
        return inside

    @torch.enable_grad()
    def inner():
        return torch.is_grad_enabled()

    x = torch.ones(2, requires_grad=True)
    assert outer(x) == [False, False, True, True, False, False]
    assert torch.is_grad_enabled()
    with torch.no_grad():
        assert inner()
        assert not torch.is_grad_enabled()


def test_line_12_mode_is_restored_after_an_error(torch):
    with pytest.raises(ZeroDivisionError), torch.no_grad():
        raise ZeroDivisionError
    assert torch.is_grad_enabled()


def test_line_12_generators(torch):
    @torch.no_grad()
    def modes():
        yield torch.is_grad_enabled()
        yield torch.is_grad_enabled()

    running = modes()
    seen = [next(running), torch.is_grad_enabled(), next(running), torch.is_grad_enabled()]
    assert seen == [False, True, False, True]


def test_line_12_modes_belong_to_their_thread(torch):
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
        seen.append(torch.is_grad_enabled())
    assert seen == [True, False]


def test_line_12_inference_mode(torch):
    x = torch.ones(2, requires_grad=True)
    with torch.inference_mode():
        y = x * 2
        assert torch.is_inference_mode_enabled()
        assert y.is_inference()
        assert not y.requires_grad
    assert not torch.is_inference_mode_enabled()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        (x * y).sum().backward()
    with pytest.raises(RuntimeError, match=r"[Ii]n-?place"):
        y.add_(1)

    @torch.inference_mode()
    def double(t):
        return t * 2

    assert double(x).is_inference()


def test_line_13_outputs_that_never_require_grad(torch):
    x = torch.tensor([1.0, 3.0, 2.0], requires_grad=True)
    for out in (x > 1, x == x, x.argmax(), x.argsort(), x.sort().indices, x.long(), x.isnan()):
        assert not out.requires_grad
    assert x.sort().values.requires_grad
    assert x.max(0).values.requires_grad


def test_line_13_one_input_is_enough(torch):
    a, b = torch.ones(2, requires_grad=True), torch.ones(2)
    for out in (a + b, b + a, b @ a, torch.cat([b, a]), torch.where(b > 0, b, a)):
        assert out.requires_grad
    assert not (b + b).requires_grad


def test_line_14_only_part_is_trained(torch):
    first, second = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
    second(first(torch.ones(1, 2)).detach()).sum().backward()
    assert first.weight.grad is None
    assert second.weight.grad is not None

    first, second = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
    for parameter in second.parameters():
        parameter.requires_grad_(False)
    second(first(torch.ones(1, 2))).sum().backward()
    assert first.weight.grad is not None
    assert second.weight.grad is None


def test_line_15_gradients_add_up(torch):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    once = x.grad.tolist()
    (x * x).sum().backward()
    assert x.grad.tolist() == [2 * g for g in once]


def test_line_15_zero_grad(torch):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for owner in (model, optimizer):
        model(torch.ones(1, 2)).sum().backward()
        owner.zero_grad(set_to_none=False)
        assert model.weight.grad.tolist() == [[0.0, 0.0]]
        assert model.bias.grad.tolist() == [0.0]
        model(torch.ones(1, 2)).sum().backward()
        owner.zero_grad()
        assert [p.grad for p in model.parameters()] == [None, None]


def test_line_16_frozen_parameters_in_the_optimizer(torch):
    def step(grad):
        parameter = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9, weight_decay=0.1)
        parameter.grad = torch.ones(2)
        optimizer.step()
        before = parameter.tolist()
        parameter.grad = grad
        optimizer.step()
        return before, parameter.tolist()

    before, after = step(None)
    assert after == before
    before, after = step(torch.zeros(2))
    # buffer 1.1, then 0.9 * 1.1 + 0.1 * 0.89 = 1.079
    assert before == pytest.approx([0.89, 0.89])
    assert after == pytest.approx([0.89 - 0.1 * 1.079] * 2)


def test_line_16_empty_parameter_list(torch):
    with pytest.raises(ValueError, match="empty parameter list"):
        torch.optim.SGD([], lr=0.1)


def two_convolutions(torch, dtype):
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 20, 3), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
    ).to(dtype)
    for parameter in net.parameters():
        torch.nn.init.constant_(parameter, 0.1)
    out = net(torch.ones(8, 3, 10, 10, dtype=dtype))
    loss = torch.nn.functional.cross_entropy(out, torch.ones(8, dtype=torch.long))
    loss.backward()
    return net[0].weight, out, loss


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("float64", 1e-12)])
def test_line_17_true_gradient_is_zero(torch, dtype, bound):
    weight, out, loss = two_convolutions(torch, getattr(torch, dtype))
    assert out.shape == (8, 20)
    assert loss.item() == pytest.approx(2.9957, abs=1e-4)
    assert weight.grad.abs().max().item() < bound
