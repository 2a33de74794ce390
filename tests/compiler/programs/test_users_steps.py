"""Steps as people write them, which must compile and give what eager code gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn


def losses(make: Callable, count: int = 8) -> tuple[list[float], list[float]]:
    """The losses of a training run, eager and compiled; `make` gives (step, arguments)."""
    results = []
    for wrap in (lambda f: f, lambda f: torch.compile(f, mode="now", fullgraph=True)):
        torch.manual_seed(0)
        step, arguments = make()
        step = wrap(step)
        outputs = [step(*arguments) for _ in range(count)]
        results.append([float(y[0] if isinstance(y, tuple) else y) for y in outputs])
    assert "kernel" in step.explain()
    return results[0], results[1]


def adversaries() -> tuple[Callable, tuple]:
    generator, critic = nn.Linear(4, 8), nn.Linear(8, 1)
    first = torch.optim.Adam(generator.parameters(), 1e-2)
    second = torch.optim.Adam(critic.parameters(), 1e-2)

    def step(real):
        second.zero_grad()
        on_real = F.softplus(-critic(real)).mean()
        on_real.backward()
        fake = generator(torch.randn(16, 4))
        on_made = F.softplus(critic(fake.detach())).mean()
        on_made.backward()
        second.step()
        first.zero_grad()
        loss = F.softplus(-critic(fake)).mean()
        loss.backward()
        first.step()
        return on_real + on_made, loss

    return step, (torch.randn(16, 8),)


def test_sums_of_losses_that_backward_has_been_through_are_returned():
    eager, compiled = losses(adversaries)
    assert compiled == pytest.approx(eager, rel=1e-4)


def test_backward_through_them_is_refused_as_in_eager_code():
    step, arguments = adversaries()
    step = torch.compile(step, mode="now", fullgraph=True)
    for _ in range(6):
        both, _ = step(*arguments)
        assert both.requires_grad
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            both.backward()


def test_normal_numbers_with_tensors_for_mean_and_deviation():
    def make():
        mean = nn.Parameter(torch.zeros(8, 2))
        optimizer = torch.optim.SGD([mean], 0.1)

        def step():
            x = mean + torch.normal(torch.zeros(8, 2), torch.full((8, 2), 2.0))
            loss = x.pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step, ()

    eager, compiled = losses(make)
    assert compiled == pytest.approx(eager, rel=1e-4)


def test_a_transformer_with_masks():
    def make():
        net = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)  # Adam makes steps of noise too
        mask = net.generate_square_subsequent_mask(5)
        padding = torch.tensor([[0.0] * 5, [0.0, 0.0, 0.0, -torch.inf, -torch.inf]])

        def step(source, target, mask):
            loss = net(source, target, mask, mask, None, padding, padding, padding).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step, (torch.randn(5, 2, 8), torch.randn(5, 2, 8), mask)

    eager, compiled = losses(make)
    assert compiled == pytest.approx(eager, rel=1e-4)


def test_a_mask_that_was_causal_may_be_another_one():
    torch.manual_seed(0)
    net = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 1, enable_nested_tensor=False
    )
    step = torch.compile(lambda x, mask: net(x, mask).sum().detach(), mode="now", fullgraph=True)
    x, causal = torch.randn(5, 2, 8), nn.Transformer.generate_square_subsequent_mask(5)
    for mask in [causal] * 6 + [causal.T.contiguous(), torch.zeros(5, 5)]:
        assert step(x, mask).item() == pytest.approx(net(x, mask).sum().item(), rel=1e-4, abs=1e-4)


def test_affine_grids_and_gaussian_losses():
    def make():
        theta = nn.Parameter(torch.eye(2, 3).repeat(2, 1, 1))
        optimizer = torch.optim.SGD([theta], 0.1)

        def step(x):
            grid = F.affine_grid(theta, [2, 1, 4, 4], align_corners=False)
            loss = F.gaussian_nll_loss(grid.flatten(1), x, x.abs())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step, (torch.randn(2, 32),)

    eager, compiled = losses(make)
    assert compiled == pytest.approx(eager, rel=1e-4)


def penalised() -> tuple[Callable, tuple]:
    critic = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(critic.parameters(), 2e-3)

    def step(real, fake):
        share = torch.rand(len(real), 1)
        between = (share * real + (1 - share) * fake).requires_grad_(True)
        (g,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        penalty = (g.norm(2, dim=1) - 1).square().mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, (torch.randn(5, 6), torch.randn(5, 6))


def test_a_penalty_on_gradients_with_respect_to_a_leaf_of_the_steps_own():
    eager, compiled = losses(penalised)
    assert compiled == pytest.approx(eager, rel=1e-4)


def test_a_leaf_of_the_steps_own_that_is_returned_keeps_its_grad():
    def step(x):
        leaf = (x * 2).detach().requires_grad_()
        leaf.square().sum().backward()
        return leaf

    step = torch.compile(step, mode="now")
    for _ in range(5):
        assert step(torch.ones(2)).grad.tolist() == [4, 4]
