"""Writes to memory that several elements share: refused, tolerated with a warning, or allowed."""

from __future__ import annotations

import pytest

SHARED = "more than one element of the written-to tensor refers to a single memory location"
PARTLY = "some elements of the input tensor and the written-to tensor refer to a single memory"

INTERNAL = [
    lambda torch, x: x.add_(1),
    lambda torch, x: x.copy_(torch.zeros(6)),
    lambda torch, x: x.bernoulli_(),
    lambda torch, x: x.normal_(),
    lambda torch, x: x.random_(),
    lambda torch, x: x.lerp_(x, 0.5),
    lambda torch, x: x.scatter_(0, torch.tensor([1]), torch.ones(1)),
    lambda torch, x: x.index_add_(0, torch.tensor([1]), torch.ones(1)),
    lambda torch, x: torch.sin(torch.ones(6), out=x),
    lambda torch, x: x.__setitem__(slice(1, None), 3),
]


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("write", INTERNAL)
def test_expanded_targets(torch, write, grad):
    x = torch.zeros(1).expand(6)
    with torch.set_grad_enabled(grad), pytest.raises(RuntimeError, match=SHARED):
        write(torch, x)
    assert x.tolist() == [0] * 6


PARTIAL = [
    lambda torch, y: y[1:].add_(y[:-1]),
    lambda torch, y: y[1:].copy_(y[:-1]),
    lambda torch, y: torch.sin(y[:-1], out=y[1:]),
    lambda torch, y: torch.add(y[:-1], y[:-1], out=y[1:]),
    lambda torch, y: torch.cumsum(y[:-1], 0, out=y[1:]),
    lambda torch, y: torch.where(y[:-1] > 0, y[:-1], y[:-1], out=y[1:]),
    lambda torch, y: torch.cat([y[:3], y[:3]], out=y[1:]),
    lambda torch, y: torch.gather(y, 0, torch.arange(7), out=y),
    lambda torch, y: torch.index_select(y, 0, torch.arange(7), out=y),
    lambda torch, y: torch.masked_select(y, y > -1, out=y),
    lambda torch, y: y[1:].index_add_(0, torch.arange(6), y[:-1]),
    lambda torch, y: y[1:].scatter_(0, torch.arange(6), y[:-1]),
    lambda torch, y: y[1:].index_put_((torch.arange(6),), y[:-1]),
    lambda torch, y: y[1:].put_(torch.arange(6), y[:-1]),
    lambda torch, y: y[1:].bernoulli_(y[:-1]),
]


@pytest.mark.parametrize("write", PARTIAL)
def test_operands_that_share_memory_in_part(torch, write):
    y = torch.arange(7.0) / 7
    before = y.tolist()
    with pytest.raises(RuntimeError, match=PARTLY):
        write(torch, y)
    assert y.tolist() == before


def test_transposed_operand(torch):
    y = torch.arange(9.0).view(3, 3)
    with pytest.raises(RuntimeError, match=PARTLY):
        y.add_(y.t())


TOLERATED = [
    ("index_fill_", lambda torch, x: x.index_fill_(0, torch.tensor([1]), 1.0)),
    ("masked_fill_", lambda torch, x: x.masked_fill_(torch.ones(6, dtype=torch.bool), 1.0)),
    ("index_put_", lambda torch, x: x.index_put_((torch.tensor([1]),), torch.ones(1))),
]


@pytest.mark.parametrize(("name", "write"), TOLERATED)
def test_deprecated_writes(torch, name, write):
    x = torch.zeros(1).expand(6)
    with pytest.warns(UserWarning, match=f"Use of {name} on expanded tensors is deprecated"):
        write(torch, x)
    assert x.tolist() == [1] * 6


def test_what_is_allowed(torch):
    x = torch.arange(6.0)
    x.add_(x).copy_(x)
    x[::2].add_(x[1::2])  # windows with gaps are not compared
    torch.sin(x, out=x)
    torch.zeros(1).expand(6).fill_(2).zero_()
    x[2:4].add_(x[:2])
    assert x.shape == (6,)


# Copies between windows with gaps read what they have just written, in PyTorch's order: a loop
# along the target's smallest strides; adjacent elements 64 bytes at once, then one by one.
OVERLAPPING = [
    ((2, 4, 5), lambda x: (x[:, 1:], x[:, :-1]), lambda x: x[:, :1].expand(2, 4, 5)),
    ((2, 9), lambda x: (x[:, 1:], x[:, :-1]), lambda x: x[:, :1].expand(2, 9)),
    ((2, 9), lambda x: (x[:, :-1], x[:, 1:]), None),
    ((20,), lambda x: (x[2::2], x[:-2:2]), None),
    ((40,), lambda x: (x[10:29], x[:38:2]), None),
    ((6, 6), lambda x: (x[1:, 1:], x[:-1, :-1].t()), None),
    ((2, 40), lambda x: (x[:, 1:], x[:, :-1]), None),
]
CHECKSUMS = [None, None, 2082, 1430, 20598, 6569, 164118]


@pytest.mark.parametrize("how", ["copy_", "setitem", "no_grad", "recorded", "int64"])
@pytest.mark.parametrize("case", range(7))
def test_copies_between_overlapping_windows(torch, case, how):
    shape, windows, result = OVERLAPPING[case]
    x = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    if how == "int64" and case not in (0, 1, 6):
        x = x.long()
    before = x.clone()
    if how == "recorded":
        x.requires_grad_()
        x = x * 1
    target, source = windows(x)
    with torch.set_grad_enabled(how != "no_grad"):
        if how == "copy_":
            target.copy_(source)
        else:
            target[...] = source
    if how == "recorded":
        assert x.requires_grad
        x = x.detach()
    if result is not None:
        assert x.equal(result(before))
    else:
        assert (x.flatten() * torch.arange(1, x.numel() + 1)).sum() == CHECKSUMS[case]


def test_gradient_of_a_copy_between_overlapping_windows(torch):
    leaf = torch.ones(2, 3, requires_grad=True)
    x = leaf * 1
    x[:, 1:] = x[:, :-1]
    (x * torch.tensor([1.0, 2, 3])).sum().backward()
    assert leaf.grad.tolist() == [[3, 3, 0]] * 2
