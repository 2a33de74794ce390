"""User Functions and indices that are tensors, on nested tensors."""

import flambeau as torch
import pytest

LAYOUTS = [torch.jagged, torch.strided]


def rows(layout):
    return torch.nested.nested_tensor(
        [torch.arange(4.0).reshape(2, 2), torch.arange(6.0).reshape(3, 2)], layout=layout,
        requires_grad=True)


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        assert x.is_nested
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * x * factor, x + 1

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        assert x.is_nested
        assert g.is_nested
        assert ctx.needs_input_grad == (True, False)
        return g * x * x * 3 * ctx.factor + h, None


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_function_gets_rows_and_returns_rows(layout):
    x = rows(layout)
    cube, more = Cubed.apply(x, 2.0)
    assert cube.is_nested
    assert more.is_nested
    assert cube.unbind()[1].tolist() == [[0, 2], [16, 54], [128, 250]]
    total = sum(r.sum() for r in cube.unbind()) + sum(r.sum() for r in more.unbind())
    (g,) = torch.autograd.grad(total, x)
    assert g.is_nested
    assert [r.tolist() for r in g.unbind()] == [
        (6 * r * r + 1).tolist() for r in x.detach().unbind()]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


def test_a_function_with_setup_context_may_save_its_result():
    x = rows(torch.jagged)
    Doubled.apply(x).values().sum().backward()
    assert torch.equal(x.grad.values(), x.detach().values() * 2)
    with torch.no_grad():
        assert Doubled.apply(x).grad_fn is None


def test_a_function_of_a_nested_and_a_dense_tensor():
    class Weighted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * w, (g * x).values().sum(0)

    x, w = rows(torch.jagged), torch.tensor([2.0, 3.0], requires_grad=True)
    Weighted.apply(x, w).values().sum().backward()
    assert w.grad.tolist() == [8, 13]
    assert x.grad.values()[0].tolist() == [2, 3]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_row_by_a_tensor_of_one_integer(layout):
    x = rows(layout)
    assert torch.equal(x[torch.tensor(1)], x[1])
    with pytest.raises((NotImplementedError, RuntimeError)):
        x[torch.tensor([1, 0])]
