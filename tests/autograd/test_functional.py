"""torch.autograd.functional: Jacobians, Hessians and products with them."""

from __future__ import annotations

import pytest


@pytest.fixture
def functional(torch):
    return torch.autograd.functional


def close(torch, actual, wanted):
    assert torch.allclose(actual, torch.as_tensor(wanted, dtype=actual.dtype)), (actual, wanted)


def test_jacobian_of_a_linear_map_is_its_matrix(torch, functional):
    a, x = torch.randn(3, 4), torch.randn(4)
    close(torch, functional.jacobian(lambda t: a @ t, x), a)
    actual = functional.jacobian(lambda t: a @ t, x, vectorize=True)
    close(torch, actual, a)
    assert not actual.requires_grad


def test_jacobian_nests_outputs_over_inputs(torch, functional):
    x, y = torch.randn(2), torch.randn(3)
    actual = functional.jacobian(lambda p, q: (p.sum() * q, p), (x, y))
    assert [[tuple(t.shape) for t in row] for row in actual] == [[(3, 2), (3, 3)], [(2, 2), (2, 3)]]
    close(torch, actual[0][1], x.sum() * torch.eye(3))
    close(torch, actual[1][1], torch.zeros(2, 3))


def test_jacobian_differentiates_again(torch, functional):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    functional.jacobian(lambda t: t**3, x, create_graph=True).sum().backward()
    close(torch, x.grad, [6.0, 12.0])


def test_hessian(torch, functional):
    x = torch.tensor([1.0, 2.0])
    close(torch, functional.hessian(lambda t: t[0] ** 2 * t[1], x), [[4.0, 2.0], [2.0, 0.0]])
    actual = functional.hessian(lambda p, q: (p * q).sum(), (x, x))
    close(torch, actual[0][1], torch.eye(2))
    close(torch, actual[0][0], torch.zeros(2, 2))


def test_products_agree_with_the_matrices(torch, functional):
    torch.manual_seed(1)
    w, x, v = torch.randn(3, 2), torch.randn(2), torch.randn(2)
    u = torch.randn(3)

    def f(t):
        return torch.tanh(w @ t)

    def loss(t):
        return (f(t) ** 2).sum()

    jacobian, hessian = functional.jacobian(f, x), functional.hessian(loss, x)
    y, actual = functional.vjp(f, x, u)
    close(torch, y, f(x))
    close(torch, actual, u @ jacobian)
    close(torch, functional.jvp(f, x, v)[1], jacobian @ v)
    close(torch, functional.vhp(loss, x, v)[1], v @ hessian)
    close(torch, functional.hvp(loss, x, v)[1], hessian @ v)
    for product in (functional.jvp, functional.vhp, functional.hvp):
        recorded = product(loss, x.clone().requires_grad_(), v, create_graph=True)[1]
        assert recorded.requires_grad


def test_strict_mode_says_what_is_constant(torch, functional):
    x, y = torch.ones(2), torch.ones(2)
    close(torch, functional.jacobian(lambda p, q: p, (x, y))[1], torch.zeros(2, 2))
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function is independent "
                       "of input 1"):
        functional.jacobian(lambda p, q: p * 2, (x, y), strict=True)
    with pytest.raises(RuntimeError, match="does not require gradients"):
        functional.vjp(lambda p: p.detach(), x, x, strict=True)
    with pytest.raises(RuntimeError, match="independent of the input"):
        functional.hessian(lambda p: p.sum(), x, strict=True)
    with pytest.raises(RuntimeError, match="not supported together"):
        functional.jacobian(lambda p: p, x, strict=True, vectorize=True)


def test_refusals(torch, functional):
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="can only be None if the user-provided function"):
        functional.vjp(lambda t: t, x)
    with pytest.raises(RuntimeError, match="can only be None if the input"):
        functional.jvp(lambda t: t, x)
    with pytest.raises(RuntimeError, match="v has invalid size: should be"):
        functional.vjp(lambda t: t, x, torch.ones(3))
    with pytest.raises(RuntimeError, match="invalid length: should be 2 but got 1"):
        functional.hvp(lambda p, q: (p * q).sum(), (x, x), x)
    with pytest.raises(RuntimeError, match="should contain a single element"):
        functional.hessian(lambda t: t, x)
    with pytest.raises(TypeError, match="must be either a Tensor or a tuple of Tensors"):
        functional.jacobian(lambda t: t, [x])
    with pytest.raises(AssertionError, match="strategy"):
        functional.jacobian(lambda t: t, x, strategy="sideways")


def test_hessian_forward_over_reverse_of_several_inputs(torch):
    x, y = torch.ones(2), torch.full((3,), 2.0)
    (xx, xy), (yx, yy) = torch.autograd.functional.hessian(
        lambda a, b: a.sum() * (b * b).sum(), (x, y), vectorize=True,
        outer_jacobian_strategy="forward-mode")
    assert xx.tolist() == [[0.0] * 2] * 2 and xy.tolist() == [[4.0] * 3] * 2
    assert yx.tolist() == [[4.0] * 2] * 3 and yy.tolist() == (4 * torch.eye(3)).tolist()


def test_strict_hessian_names_a_gradient_that_is_missing(torch):
    with pytest.raises(RuntimeError, match="jacobian of the user-provided function with respect "
                       "to input 0 is independent of the input"):
        torch.autograd.functional.hessian(
            lambda a: a.detach().clone().requires_grad_().sum(), torch.ones(2), strict=True)


def test_standard_basis(torch):
    columns = torch.autograd.functional._construct_standard_basis_for(
        (torch.ones(2), torch.ones((), dtype=torch.float64)), (2, 1))
    assert [part.tolist() for part in columns] == [[[1, 0], [0, 1], [0, 0]], [[0], [0], [1]]]
    assert columns[1].dtype is torch.float64
