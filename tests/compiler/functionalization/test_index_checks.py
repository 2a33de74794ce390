"""Indices and labels out of bounds raise what they raise eagerly, and change nothing."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.compiler.ir.graph import Op

from ..step_comparison import compiled, runs, same


def _warm(step, *args, calls=4):
    for _ in range(calls):
        step(*args)
    assert runs(step)
    return step


def test_labels():
    net = nn.Linear(3, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    fast = _warm(compiled(step), torch.randn(5, 3), torch.tensor([0, 1, 2, 3, 3]))
    before = net.weight.detach().clone()
    with pytest.raises(IndexError, match="out of bounds"):
        fast(torch.randn(5, 3), torch.tensor([0, 1, 2, 3, 4]))
    same(net.weight.detach(), before)
    served = runs(fast)
    actual = fast(torch.ones(5, 3), torch.tensor([0, 1, 2, 3, -100]))  # ignored
    assert runs(fast) == served + 1
    assert actual.item() > 0


def test_embeddings_and_gathers():
    table = nn.Embedding(10, 4)
    fast = _warm(compiled(lambda i: table(i).detach()), torch.tensor([1, 2]))
    same(fast(torch.tensor([9, 0])), table.weight[[9, 0]].detach())
    for wrong in (10, -1):
        with pytest.raises(IndexError):
            fast(torch.tensor([1, wrong]))
    fast = _warm(compiled(lambda x, i: x.gather(1, i)), torch.randn(3, 4), torch.ones(3, 2).long())
    with pytest.raises(RuntimeError):
        fast(torch.randn(3, 4), torch.full((3, 2), 4))
    x = torch.randn(5, 2)
    fast = _warm(compiled(lambda i: x[i]), torch.tensor([1, -2]))
    same(fast(torch.tensor([-5, 4])), x[[0, 4]])
    with pytest.raises(IndexError):
        fast(torch.tensor([1, 5]))


def test_indices_that_the_step_computes_are_clamped():
    x = torch.randn(5, 2)
    fast = _warm(compiled(lambda y: x[y.argmax(1)]), torch.randn(3, 5))
    y = torch.randn(3, 5)
    same(fast(y), x[y.argmax(1)])
    fast = _warm(compiled(lambda y: x[(y.exp() * 4).long()]), torch.zeros(3))
    graph = fast._programs[0].step.graph
    take = next(node for node in graph.nodes() if node.op is Op.TAKE)
    assert take.inputs[1].op is Op.APPLY
