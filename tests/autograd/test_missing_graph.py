"""Notes below errors of backward: which line cut the graph, or used it up."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

NO_GRAPH = "element 0 of tensors does not require grad and does not have a grad_fn"


@pytest.fixture
def net() -> nn.Module:
    return nn.Linear(4, 3)


x, y = torch.ones(8, 4), torch.arange(8) % 3


def notes(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", ()))


def test_argmax(net):
    prediction = net(x).argmax(1)
    loss = prediction.float().mean()
    with pytest.raises(RuntimeError) as caught:
        loss.backward()
    assert str(caught.value) == NO_GRAPH
    assert "argmax() gives positions" in notes(caught.value)
    assert "prediction = net(x).argmax(1)" in notes(caught.value)


def test_no_grad(net):
    with torch.no_grad():
        out = net(x)
    loss = F.cross_entropy(out, y.long())
    with pytest.raises(RuntimeError) as caught:
        loss.backward()
    assert "inside of torch.no_grad()" in notes(caught.value)
    assert "out = net(x)" in notes(caught.value)


def test_detach_in_the_statement_itself(net):
    with pytest.raises(RuntimeError) as caught:
        F.cross_entropy(net(x).detach(), y).backward()
    assert "detach() takes the tensor out" in notes(caught.value)


def test_numbers(net):
    losses = [F.cross_entropy(net(x), y).item()]
    loss = torch.tensor(losses).sum()
    with pytest.raises(RuntimeError) as caught:
        loss.backward()
    assert "torch.tensor() copies the numbers" in notes(caught.value)


def test_frozen(net):
    net.requires_grad_(False)
    loss = F.cross_entropy(net(x), y.long())
    with pytest.raises(RuntimeError) as caught:
        loss.backward()
    assert "frozen" in notes(caught.value)
    with torch.no_grad(), pytest.raises(RuntimeError) as caught:
        F.cross_entropy(net(x), y).backward()
    assert "disabled here" in notes(caught.value)


def test_twice(net):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    with pytest.raises(RuntimeError, match="a second time") as caught:
        loss.backward()
    assert "an earlier backward(), at line" in notes(caught.value)


def test_carried_state():
    cell, state = nn.RNNCell(4, 5), torch.zeros(8, 5)
    with pytest.raises(RuntimeError, match="a second time") as caught:
        for _ in range(3):
            state = cell(x, state)
            state.mean().backward()
    assert "has run before" in notes(caught.value)
    assert "state (line" in notes(caught.value)


def test_no_grad_and_loss_in_one_statement(net):
    with torch.no_grad():
        out = net(x)
    with pytest.raises(RuntimeError) as caught:
        F.cross_entropy(out, y).backward()
    assert "inside of torch.no_grad()" in notes(caught.value)
    assert "out = net(x)" in notes(caught.value)
