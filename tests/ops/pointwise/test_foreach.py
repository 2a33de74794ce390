"""torch._foreach_*: what the operator gives for each tensor of a list."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.ops.pointwise.foreach import _BINARY, _SCALED, _UNARY


def two():
    return [torch.tensor([0.5, 0.25]), torch.tensor([[0.3, 0.6]])]


def same(actual, wanted):
    assert len(actual) == len(wanted)
    for x, other in zip(actual, wanted, strict=True):
        torch.testing.assert_close(x, other)


@pytest.mark.parametrize("name", _UNARY)
def test_unary(name):
    wanted = [getattr(torch, name)(x) for x in two()]
    results = getattr(torch, f"_foreach_{name}")(two())
    assert isinstance(results, tuple)
    same(results, wanted)
    tensors = two()
    assert getattr(torch, f"_foreach_{name}_")(tensors) is tensors
    same(tensors, wanted)


@pytest.mark.parametrize("name", _BINARY)
def test_binary(name):
    function = {"maximum": torch.clamp_min, "minimum": torch.clamp_max}.get(
        name) or getattr(torch, name)
    others = [2, [2.0, 3.0], [x.flip(-1) for x in two()]]
    if name in ("add", "mul", "div"):
        others.append(torch.tensor(3.0))
    for other in others:
        each = other if isinstance(other, list) else [other, other]
        wanted = [function(x, by) for x, by in zip(two(), each, strict=True)]
        same(getattr(torch, f"_foreach_{name}")(two(), other), wanted)
        tensors = two()
        getattr(torch, f"_foreach_{name}_")(tensors, other)
        same(tensors, wanted)


@pytest.mark.parametrize("name", _SCALED)
def test_scaled_products(name):
    for value, scales in ((3, (3, 3)), ([1.0, 2.0], (1, 2)), (torch.tensor([1.0, 2.0]), (1, 2))):
        wanted = [getattr(torch, name)(x, x, x + 1, value=scale)
                  for x, scale in zip(two(), scales, strict=True)]
        more = [x + 1 for x in two()]
        same(getattr(torch, f"_foreach_{name}")(two(), two(), more, value), wanted)
        tensors = two()
        getattr(torch, f"_foreach_{name}_")(tensors, two(), more, value)
        same(tensors, wanted)


def test_lerp_norm_copy_and_zero():
    zeros = [torch.zeros_like(x) for x in two()]
    for weight in (0.5, [0.5, 0.5], [torch.full_like(x, 0.5) for x in two()]):
        same(torch._foreach_lerp(two(), zeros, weight), [x / 2 for x in two()])
    same(torch._foreach_norm(two()), [x.norm() for x in two()])
    same(torch._foreach_norm(two(), 1), [x.sum() for x in two()])
    same(torch._foreach_powsum(two(), 2), [x.square().sum() for x in two()])
    same(torch._foreach_max(two()), [x.max() for x in two()])
    same(torch._foreach_pow(2.0, two()), [2**x for x in two()])
    same(torch._foreach_clone(two()), two())
    same(torch._foreach_mm([torch.eye(2)], [torch.ones(2, 2)]), [torch.ones(2, 2)])
    tensors = two()
    torch._foreach_copy_(tensors, zeros)
    same(tensors, zeros)
    tensors = two()
    torch._foreach_zero_(tensors)
    same(tensors, zeros)


def test_alpha_and_gradients():
    same(torch._foreach_sub(two(), two(), alpha=2), [-x for x in two()])
    w = torch.ones(2, requires_grad=True)
    (y,) = torch._foreach_mul([w], 3)
    y.sum().backward()
    assert w.grad.tolist() == [3, 3]


def test_what_is_refused():
    with pytest.raises(RuntimeError, match="Tensor list must have at least one tensor"):
        torch._foreach_add([], 1)
    with pytest.raises(RuntimeError, match="same number of tensors, got 2 and 1"):
        torch._foreach_add(two(), [torch.ones(2)])
    with pytest.raises(RuntimeError, match="same number of elements as scalar list"):
        torch._foreach_add(two(), [1])
    with pytest.raises(RuntimeError, match="same number of elements as scalar list"):
        torch._foreach_add(two(), [])
    with pytest.raises(RuntimeError, match="expected to be 0 dim but it has 1 dimensions"):
        torch._foreach_mul(two(), torch.ones(2))
    with pytest.raises(RuntimeError, match="Expected length of scalars"):
        torch._foreach_addcdiv(two(), two(), two(), torch.ones(3))
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        torch._foreach_add(torch.ones(2), 1)
    with pytest.raises(TypeError, match="expected Tensor as element 0"):
        torch._foreach_add([1.0], 1)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        torch._foreach_add_([torch.ones(2, requires_grad=True)], 1)


def test_a_step_with_an_optimizer_of_ones_own_is_compiled():
    def train(wrap):
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 3)
        params = list(net.parameters())
        moments = [torch.zeros_like(p) for p in params]

        def step(x):
            loss = net(x).square().mean()
            loss.backward()
            with torch.no_grad():
                grads = [p.grad for p in params]
                torch._foreach_lerp_(moments, grads, 0.1)
                torch._foreach_add_(params, torch._foreach_sign(moments), alpha=-1e-2)
            for p in params:
                p.grad = None
            return loss.detach()

        step, x = wrap(step), torch.randn(8, 4)
        return [step(x).item() for _ in range(6)]

    wanted = train(lambda f: f)
    actual = train(lambda f: torch.compile(f, mode="now", fullgraph=True))
    assert actual == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
@pytest.mark.parametrize(("scalars", "message"), [
    (torch.tensor(1.0), "Expected packed scalar Tensor to be of dimension 1. Got 0 instead."),
    (torch.ones(1, 1), "Expected packed scalar Tensor to be of dimension 1. Got 2 instead."),
    (torch.ones(2, 2)[:, 1], "Expected scalars to be contiguous."),
    (torch.ones(3), "Expected length of scalars to match input of length 2 but got 3 instead."),
])
def test_scalars_in_a_tensor_are_a_vector(name, scalars, message):
    lists = [[torch.ones(2), torch.ones(3)] for _ in range(3)]
    for function in (getattr(torch, f"_foreach_{name}"), getattr(torch, f"_foreach_{name}_")):
        with pytest.raises(RuntimeError, match=message):
            function(*lists, scalars)
        with pytest.raises(RuntimeError, match="same number of tensors, got 2 and 0"):
            function(lists[0], [], lists[2], 1)
