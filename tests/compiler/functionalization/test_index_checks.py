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


@pytest.mark.parametrize("source", ["argument", "outside tensor"])
def test_columns_of_one_source_are_checked_together(source):
    weights, outside = torch.randn(9, 9), torch.randint(0, 9, (4, 6))
    total = torch.zeros(())

    def step(labels):
        y = outside if source == "outside tensor" else labels
        score = sum(weights[y[:, i - 1], y[:, i]].sum() for i in range(1, 6))
        total.add_(score)
        return score

    fast = _warm(compiled(step), outside)
    checks = fast._programs[0].bindings.checks
    assert len([check for check in checks if check.graph is not None]) <= 2
    for wrong in (9, -10):
        labels = outside.clone()
        labels[2, 3] = wrong
        before = total.clone()
        if source == "outside tensor":
            outside.copy_(labels)
        with pytest.raises(IndexError):
            fast(labels)
        same(total, before)
        if source == "outside tensor":
            outside.fill_(0)
    labels = outside.clone()
    labels[1, 2] = -9  # counts from the end
    expected = step(labels)
    same(fast(labels), expected)


def test_values_that_no_index_reads_may_be_anything():
    weights, y = torch.randn(9), torch.tensor([[1, 70], [2, -90], [8, 9]])
    fast = _warm(compiled(lambda y: weights[y[:, 0]] * 2), y)
    served = runs(fast)
    same(fast(y), weights[[1, 2, 8]] * 2)
    assert runs(fast) == served + 1


def test_indices_computed_from_arguments():
    weights, seen = torch.randn(6), torch.zeros(())

    def step(i):
        seen.add_(1)
        return weights[i * 2 + 1]

    fast = _warm(compiled(step), torch.tensor([0, 1]))
    before = seen.clone()
    with pytest.raises(IndexError):
        fast(torch.tensor([0, 3]))
    same(seen, before + 1)  # as eagerly: the step wrote before it raised
    same(fast(torch.tensor([2, 0])), weights[[5, 1]])
