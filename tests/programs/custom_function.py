"""autograd.Function: straight-through, setup_context, reversal, once_differentiable."""

import torch
from torch import nn
from torch.autograd import Function, gradcheck
from torch.autograd.function import once_differentiable

torch.manual_seed(18)


class Sign(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= 1)


class Reverse(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.neg() * ctx.alpha, None


class Fused(Function):
    @staticmethod
    def forward(x, w, b=None):
        return torch.relu(x @ w.t() + (0 if b is None else b))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, *rest = inputs
        ctx.save_for_backward(x, w, output)
        ctx.has_bias = bool(rest) and rest[0] is not None

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, w, y = ctx.saved_tensors
        g = g * (y > 0)
        return g @ w, g.t() @ x, g.sum(0) if ctx.has_bias else None


x = torch.randn(5, 3, requires_grad=True)
w, b = torch.randn(4, 3, requires_grad=True), torch.randn(4, requires_grad=True)
loss = Sign.apply(Fused.apply(x, w, b) - 0.5).sum() + Reverse.apply(x, 0.3).pow(2).sum()
loss.backward()
print(loss.item(), x.grad.norm().item(), w.grad.sum().item(), b.grad)
print(
    gradcheck(
        Fused.apply,
        (
            torch.randn(3, 2, dtype=torch.double, requires_grad=True),
            torch.randn(4, 2, dtype=torch.double, requires_grad=True),
        ),
    )
)


class Exp(Function):
    @staticmethod
    def forward(ctx, i):
        result = i.exp()
        ctx.save_for_backward(result)
        ctx.mark_non_differentiable(mask := result > 1)
        return result, mask

    @staticmethod
    def backward(ctx, g, _):
        (result,) = ctx.saved_tensors
        return g * result


t = torch.tensor([0.5, -1.0], requires_grad=True)
y, mask = Exp.apply(t)
(g,) = torch.autograd.grad(y.sum(), t, create_graph=True)
print(mask, torch.autograd.grad(g.sum(), t), type(y.grad_fn).__name__)
try:
    Fused.apply(x, w).sum().backward(create_graph=True)
    x.grad.sum().backward()
except RuntimeError as e:
    print(str(e)[:90])
print(torch.autograd.functional.jacobian(lambda a: a.sin() * a.sum(), torch.tensor([1.0, 2.0])))
print(torch.autograd.functional.hessian(lambda a: (a**3).sum(), torch.tensor([1.0, 2.0])))
