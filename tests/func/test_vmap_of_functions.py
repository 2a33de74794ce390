"""Functions of the user's own inside of vmap: their gradients around it, within it, and their own
rules."""

from __future__ import annotations

import pytest


@pytest.fixture
def product(torch):
    class Product(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return 10 * g * y, g * x

    return Product


def leaves(torch):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    return x, torch.tensor([2.0, 3.0], requires_grad=True)


def test_the_tape_around_vmap_gets_the_functions_gradients(torch, product):
    x, w = leaves(torch)
    y = torch.vmap(product.apply, (0, None))(x, w)
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [[20.0, 30.0]] * 3
    assert w.grad.tolist() == [9.0, 12.0]


def test_its_second_derivative(torch, product):
    x, w = leaves(torch)
    y = torch.vmap(product.apply, (0, None))(x, w)
    (g,) = torch.autograd.grad((y**2).sum(), x, create_graph=True)
    assert g.tolist() == (20 * x * w * w).tolist()
    g.sum().backward()
    assert x.grad.abs().sum() > 0
    assert w.grad.abs().sum() > 0


def test_gradients_within_and_around(torch, product):
    x, w = leaves(torch)

    def squares(v, u):
        return (product.apply(v, u) ** 2).sum()

    g = torch.vmap(torch.func.grad(squares), (0, None))(x, w)
    assert torch.allclose(g, 20 * x * w * w)
    g.sum().backward()
    assert x.grad is not None
    assert w.grad is not None


def test_a_vmap_inside_of_another(torch, product):
    x, w = leaves(torch)
    y = torch.vmap(torch.vmap(product.apply, (0, None)), (None, 0))(x, torch.stack([w, w]))
    assert y.shape == (2, 3, 2)
    y.sum().backward()
    assert x.grad.tolist() == [[40.0, 60.0]] * 3
    assert w.grad.tolist() == [18.0, 24.0]


def test_a_rule_of_its_own_gets_all_examples(torch, product):
    seen = []

    class WithRule(product):
        generate_vmap_rule = False

        @staticmethod
        def vmap(info, in_dims, x, y):
            seen.append((info.batch_size, info.randomness, in_dims))
            return product.apply(x, y.unsqueeze(0)), 0

    x, w = leaves(torch)
    y = torch.vmap(WithRule.apply, (0, None))(x, w)
    assert seen == [(3, "error", (0, None))]
    assert torch.allclose(y, x * w)
    y.sum().backward()
    assert x.grad.tolist() == [[20.0, 30.0]] * 3


def test_batched_cotangents_go_through_at_once(torch):
    calls = []

    class Counted(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 3

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            calls.append(1)
            return g * 3

    x = torch.ones(2, requires_grad=True)
    y = Counted.apply(x)
    rows = torch.tensor([[1, 0], [0, 1], [2, 2]])
    (g,) = torch.autograd.grad(y, x, rows, is_grads_batched=True)
    assert g.tolist() == [[3.0, 0.0], [0.0, 3.0], [6.0, 6.0]]
    assert len(calls) == 1
    with pytest.raises(RuntimeError, match="If `is_grads_batched=True`, we interpret the first"):
        torch.autograd.grad(Counted.apply(x), x, torch.ones(3), is_grads_batched=True)


def test_a_rule_may_write_its_argument(torch):
    class Exponential(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp_()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(*inputs)
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

        @staticmethod
        def vmap(info, in_dims, x):
            Exponential.apply(x)
            return x, in_dims[0]

    x = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    y = torch.vmap(lambda example: Exponential.apply(example.clone()))(x)
    assert y.equal(x.exp())
    written = x.clone()
    torch.vmap(Exponential.apply)(written)
    assert written.equal(x.exp())


def test_index_put_with_one_index_per_example_under_grad(torch):
    def loss(x, i):
        y = torch.index_put(torch.zeros(4), (i,), x.sum())
        return (y**2).sum()

    each = torch.func.vmap(torch.func.grad(loss))
    assert each(torch.ones(3, 2), torch.tensor([1, 2, 3])).tolist() == [[4, 4]] * 3
