"""Memory around a compiled call: results that are views of arguments, aliases, versions."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn

from ..step_comparison import compiled, runs

TRANSPOSED = {
    "t": lambda a: a.t(),
    "T": lambda a: a.T,
    "mT": lambda a: a.mT,
    "permute": lambda a: a.permute(1, 0),
    "swapaxes": lambda a: a.swapaxes(0, 1),
    "einsum": lambda a: torch.einsum("ij->ji", a),
    "row": lambda a: a[1],
    "flat": lambda a: a.view(9),
    "diagonal": lambda a: a.diagonal(),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_views_of_an_argument(name):
    """Same strides, same memory and same base as the eager view, beside another output too."""
    view = TRANSPOSED[name]
    for step in (lambda a: (view(a),), lambda a: (view(a), a * 2)):
        fast = compiled(step)
        for k in range(5):
            a = torch.arange(9.0).reshape(3, 3) + k
            found, expected = fast(a)[0], step(a)[0]
            assert found.stride() == expected.stride()
            assert found.data_ptr() == expected.data_ptr()
            assert torch.equal(found, expected)
            assert found._base is expected._base
            found.mul_(2)
            assert found._version == a._version == 1
        assert runs(fast) >= 2


def test_a_detached_argument_shares_its_version_and_is_no_view():
    fast = compiled(lambda a: (a.detach(), a + 1))
    for _ in range(5):
        a = torch.ones(3)
        b, _ = fast(a)
        b.add_(1)
        assert a._version == 1
        assert b._base is None
        assert a.tolist() == [2, 2, 2]
    assert runs(fast) >= 2


def test_an_argument_that_is_a_captured_tensor_is_not_taken_for_any_argument():
    w = torch.arange(4.0)

    def step(x):
        w.add_(1)
        return x * 2

    fast = compiled(step)
    for _ in range(4):
        assert torch.equal(fast(w), w * 2)
    x = torch.ones(4)
    for k in range(4):
        before = w.clone()
        assert fast(x).tolist() == [2, 2, 2, 2], k
        assert torch.equal(w, before + 1)
    assert torch.equal(fast(w), w * 2)


@pytest.mark.parametrize("captured", ["global", "list", "module"])
def test_a_captured_tensor_that_is_only_read(captured):
    net = nn.Linear(4, 4)
    w = net.weight.detach() if captured == "module" else torch.arange(16.0).reshape(4, 4)
    held = [w]
    steps = {
        "global": lambda x: x + w,
        "list": lambda x: x + held[0],
        "module": lambda x: x + net.weight,
    }
    step = steps[captured]
    fast = compiled(step)
    for _ in range(4):
        assert torch.equal(fast(w), step(w))
    for _ in range(4):
        x = torch.ones(4, 4)
        assert torch.equal(fast(x), step(x))


def test_a_tensor_returned_twice_in_a_dict():
    def step(x):
        y = x * 2
        return {"a": y, "b": y, "c": [y, y + 1]}

    fast = compiled(step)
    for _ in range(5):
        found = fast(torch.ones(3))
        assert found["a"] is found["b"] is found["c"][0]
        assert found["c"][1].tolist() == [3, 3, 3]
    assert runs(fast) >= 2


def test_objects_whose_getattr_reads_a_dict():
    class Settings:
        def __init__(self):
            self.__dict__["values"] = {"scale": 2.0}

        def __getattr__(self, name):
            return self.__dict__["values"][name]

    settings = Settings()
    fast = compiled(lambda x: x * settings.scale)
    for _ in range(4):
        assert fast(torch.ones(2)).tolist() == [2, 2]


# ------------------------------------------------------------------------------- versions


def _train(optimizer):
    p = nn.Parameter(torch.ones(5))
    bn = nn.BatchNorm1d(5)
    optim = getattr(torch.optim, optimizer)([p, *bn.parameters()], lr=0.1)

    def step(x):
        optim.zero_grad()
        loss = bn(x * p).square().sum()
        loss.backward()
        optim.step()
        return loss

    return step, [p, *bn.parameters(), *bn.buffers()]


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
def test_programs_count_their_writes(optimizer):
    step, tensors = _train(optimizer)
    twin, expected = _train(optimizer)
    fast = compiled(step)
    for _ in range(7):
        x = torch.randn(4, 5)
        fast(x)
        twin(x)
        assert [t._version for t in tensors] == [t._version for t in expected]
    assert runs(fast) >= 3


def test_writes_to_arguments_and_views_are_counted():
    buffer = torch.zeros(4)
    part = buffer[:2]

    def step(x):
        x.mul_(2).add_(1)
        part.add_(x[:2])
        return x.sum()

    fast = compiled(step)
    for k in range(6):
        x = torch.ones(4)
        fast(x)
        assert x._version == 2
        assert part._version == buffer._version == k + 1
    assert runs(fast) >= 2


def test_backward_through_memory_that_a_program_wrote_is_refused():
    buffer = torch.ones(3)
    fast = compiled(lambda x: buffer.add_(x).sum())
    for _ in range(4):
        fast(torch.ones(3))
    q = torch.ones(3, requires_grad=True)
    y = (q * buffer).sum()
    fast(torch.ones(3))
    assert runs(fast) >= 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
