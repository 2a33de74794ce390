"""A walk through autograd, which ends with a network that learns a differential equation.

    flambeau examples/autograd_tour.py
    python examples/autograd_tour.py
"""

from __future__ import annotations

import math

import torch
from progress import Progress, options
from torch import nn


def gradients() -> None:
    print("1. Gradients")
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x**2).sum()
    print("   y =", y)
    y.backward()
    print("   dy/dx =", x.grad)


def hooks() -> None:
    print("2. Hooks, and gradients in the middle of a graph")
    a = torch.ones(2, requires_grad=True)
    b = a * 2
    b.retain_grad()
    b.register_hook(lambda grad: print("   the hook sees", grad))
    b.norm().backward()
    print("   b.grad =", b.grad, " a.grad =", a.grad)


class Cube(torch.autograd.Function):
    """x ** 3, with its derivative by hand."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


def functions() -> None:
    print("3. An operator of one's own, checked against finite differences")
    x = torch.tensor([0.5, -1.5], dtype=torch.float64, requires_grad=True)
    print("   gradcheck:", torch.autograd.gradcheck(Cube.apply, (x,)))
    print("   gradgradcheck:", torch.autograd.gradgradcheck(Cube.apply, (x,)))


def derivatives() -> None:
    print("4. Derivatives of derivatives")
    x = torch.tensor(0.7, requires_grad=True)
    y = x.sin()
    for order in range(1, 5):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        print(f"   order {order} of sin at 0.7: {y.item():+.6f}")


def graph() -> None:
    print("5. The graph itself")
    x = torch.ones(2, requires_grad=True)
    node = (x * 2).exp().sum().grad_fn
    names = []
    while node is not None:
        names.append(node.name().split("::")[-1])
        node = node.next_functions[0][0] if node.next_functions else None
    print("   " + " <- ".join(names))


def mistakes() -> None:
    print("6. Mistakes that are caught")
    x = torch.ones(3, requires_grad=True)
    try:
        x.add_(1)
    except RuntimeError as error:
        print("   ", str(error).split("\n")[0])
    y = x.sigmoid()
    y.detach().zero_()
    try:
        y.sum().backward()
    except RuntimeError as error:
        print("   ", str(error).split(" Hint")[0])


def training_step(net, optimizer):
    def step(times):
        y = net(times)
        (speed,) = torch.autograd.grad(y.sum(), times, create_graph=True)
        (acceleration,) = torch.autograd.grad(speed.sum(), times, create_graph=True)
        start = y[0] ** 2 + (speed[0] - 1) ** 2
        loss = ((acceleration + y) ** 2).mean() + start.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def oscillator(args) -> None:
    """Fits y'' = -y, y(0) = 0, y'(0) = 1 on [0, pi]. The solution is the sine.

    The loss holds the network's second derivative, so training takes third derivatives.
    """
    print("7. A network that solves y'' = -y from its derivatives alone")
    torch.manual_seed(args.seed)
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.998)
    progress = Progress(1000, args)
    times = torch.linspace(0, math.pi, 64).unsqueeze(1).requires_grad_()  # (64, 1)
    step = training_step(net, optimizer)
    if args.compile:
        step = torch.compile(step)
    while not progress.finished:
        loss = step(times)
        scheduler.step()
        progress.record(loss.item())
    with torch.no_grad():
        error = (net(times) - times.sin()).abs().max().item()
    print(f"   {len(progress.losses)} steps, {progress.seconds:.1f} s; largest error {error:.4f}")


def main() -> None:
    args = options(__doc__.split("\n")[0]).parse_args()
    for stop in (gradients, hooks, functions, derivatives, graph, mistakes):
        stop()
    oscillator(args)


if __name__ == "__main__":
    main()
