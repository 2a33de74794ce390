"""Versions of grads: one write per backward pass, and what PyTorch's sums and copies write."""

from __future__ import annotations

import pytest

import flambeau as torch

# (what a pass computes from a parameter of shape (2, 3), version of a new grad, and after another
# pass into the same grad); the figures are PyTorch 2.13's
PASSES = {
    "one use": (lambda w: (w * 2).sum(), 0, 1),
    "two uses": (lambda w: (w * 2 + w * 3).sum(), 1, 2),
    "three uses": (lambda w: (w * 2 + w * 3 + w.exp()).sum(), 2, 3),
    "an expanded cotangent": (lambda w: w.sum(), 1, 2),
    "a transposed cotangent": (lambda w: w.t().contiguous().sum(), 1, 2),
    "two expanded cotangents": (lambda w: (w - w).sum(), 0, 1),
    "an expanded one first": (lambda w: (w * 2).sum() + w.sum(), 0, 1),
    "parts": (lambda w: (w[0] * 2 + w[1] * 3).sum(), 1, 2),
    "a product with itself": (lambda w: (w @ w.t()).sum(), 1, 2),
    "a cotangent of two uses": (lambda w: (w + w).exp().sum(), 0, 1),
    "another use of such a cotangent": (lambda w: (w * 2 + w).exp().sum(), 1, 2),
    "views of the parameter": (lambda w: (w.view(6) * 3).sum() + (w.reshape(3, 2) * 3).sum(), 0, 1),
    "views first": (lambda w: (w * 3).sum() + (w[0] * 2).sum() + (w.view(6) * 3).sum(), 1, 2),
    "parts of one cotangent": (lambda w: torch.stack([w, w, w]).exp().sum(), 1, 2),
}


@pytest.mark.parametrize("name", list(PASSES))
def test_versions_of_new_and_existing_grads(name):
    compute, new, existing = PASSES[name]
    w = torch.ones(2, 3, requires_grad=True)
    compute(w).backward()
    first = w.grad
    assert first._version == new
    compute(w).backward()
    assert w.grad is first and first._version == existing


@pytest.mark.parametrize("name", list(PASSES))
def test_versions_of_sums_for_chosen_inputs(name):
    compute, new, existing = PASSES[name]
    w = torch.ones(2, 3, requires_grad=True)
    (g,) = torch.autograd.grad(compute(w), w)
    assert g._version == (0 if 0 in g.stride() or "transposed" in name else new)
    compute(w).backward(inputs=[w])
    assert w.grad._version == new
    compute(w).backward(inputs=[w])
    assert w.grad._version == existing


@pytest.mark.parametrize("name", list(PASSES))
@pytest.mark.parametrize("follow", [None, True])
def test_passes_of_compiled_functions_leave_the_same_versions(name, follow):
    def run(transform):
        w, seen = torch.ones(2, 3, requires_grad=True), []
        compute = transform(PASSES[name][0])
        for i in range(8):
            if i % 2 == 0:
                w.grad = None
            compute(w).backward()
            (g,) = torch.autograd.grad(compute(w), w)
            seen.append((w.grad._version, g._version, g.stride()))
        return seen

    options = {"mode": "now", "follow": follow}
    assert run(lambda f: torch.compile(f, options=options)) == run(lambda f: f)


@pytest.mark.parametrize("name", list(PASSES))
@pytest.mark.parametrize("follow", [None, True])
@pytest.mark.parametrize("keeps", [False, True])
def test_compiled_passes_leave_the_same_versions(name, follow, keeps):
    compute = PASSES[name][0]

    def run(transform):
        w = torch.ones(2, 3, requires_grad=True)

        def step():
            if not keeps:
                w.grad = None
            compute(w).backward()

        step = transform(step)
        return [(step(), w.grad._version)[1] for _ in range(6)]

    options = {"mode": "now", "follow": follow}
    assert run(lambda f: torch.compile(f, options=options)) == run(lambda f: f)


@pytest.mark.parametrize("calls", [17, 18, 19])
def test_programs_that_add_to_grads_of_another_count_anew(calls):
    def run(transform):
        torch.manual_seed(0)
        net, count = torch.nn.Linear(4, 2), [0]
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(x):
            net(x).square().mean().backward()
            count[0] += 1
            if count[0] % 3 == 0:
                optimizer.step()
                optimizer.zero_grad()

        step = transform(step)
        for _ in range(calls):
            step(torch.randn(6, 4))
        return [None if p.grad is None else p.grad._version for p in net.parameters()]

    assert run(lambda f: torch.compile(f, mode="now")) == run(lambda f: f)


@pytest.mark.filterwarnings("ignore:.*reference cycle")
def test_a_recorded_sum_is_copied_once():
    w = torch.ones(3, requires_grad=True)
    ((w * 2).exp() + w.exp()).sum().backward(create_graph=True)
    assert w.grad._version == 1
