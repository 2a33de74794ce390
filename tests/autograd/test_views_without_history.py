"""Views that autograd has no history of: made in no_grad, or as one of several."""

from __future__ import annotations

import pytest


def leaf(torch, *values):
    return torch.tensor(values, requires_grad=True)


def make_view(torch, how, x):
    if how == "no_grad":
        with torch.no_grad():
            return x[:2]
    if how == "inference_mode":
        with torch.inference_mode():
            return x[:2]
    if how == "split":
        return x.split(2)[0]
    return x.view(2, 2).unbind()[0]


ORIGINS = {
    "no_grad": "^A view was created in no_grad mode and {} with grad mode enabled. Given that",
    "inference_mode": "^A view was created in inference mode and {} in normal mode. Given that",
    "split": "^A view was created in no_grad mode and {} .* returns multiple views",
    "unbind": "^A view was created in no_grad mode and {} .* returns multiple views",
}


@pytest.mark.parametrize("how", ORIGINS)
def test_recorded_writes_to_views_without_history_raise(torch, how):
    text = ORIGINS[how].format("is being modified inplace")
    source = leaf(torch, 1.0, 2.0)
    writes = [lambda v: v.mul_(source), lambda v: v.copy_(source), lambda v: v.fill_(source[0]),
              lambda v: v.__setitem__(0, source[0]), lambda v: v[:1].add_(source[:1])]
    for write in writes:
        x = torch.zeros(4)
        view = make_view(torch, how, x)
        view.add_(1)  # nothing is recorded
        with pytest.raises(RuntimeError, match=text):
            write(view)
        assert x.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("how", ORIGINS)
def test_a_recorded_write_to_the_base_spoils_views_without_history(torch, how):
    x = torch.zeros(4)
    view = make_view(torch, how, x)
    x.add_(leaf(torch, 1.0, 2.0, 3.0, 4.0))
    assert view.requires_grad
    assert repr(view) == "tensor([1., 2.], grad_fn=<Invalid>)"
    text = ORIGINS[how].format("its base or another view of its base has been modified inplace")
    for use in (lambda: view.grad_fn, lambda: view * 2):
        with pytest.raises(RuntimeError, match=text):
            use()


def test_views_of_a_leaf_without_history_are_leaves_until_it_is_written(torch):
    x = leaf(torch, 1.0, 2.0)
    with torch.no_grad():
        view = x[:1]
    assert view.requires_grad and view.is_leaf and view.grad_fn is None
    y = view * 3
    assert y.requires_grad
    y.backward()
    assert x.grad is None
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being"):
        view.mul_(2)
    with torch.no_grad():
        view.mul_(2)
    assert "Invalid" in repr(view)
    with pytest.raises(RuntimeError, match="has been modified inplace with grad mode enabled"):
        view * 2


def test_parts_of_tensor_split_may_be_written(torch):
    x = torch.zeros(5)
    first, second = x.tensor_split(2)
    first.mul_(leaf(torch, 1.0, 2.0, 3.0))
    assert first.grad_fn.name() == second.grad_fn.name() == "AsStridedBackward0"
    second.add_(1)
    parts = (leaf(torch, 1.0, 2.0) * 1).hsplit(2)
    assert [part.grad_fn.name() for part in parts] == ["SliceBackward0"] * 2
    assert [part.add_(1).item() for part in parts] == [2.0, 3.0]


def test_views_of_views_without_history_name_their_node(torch):
    for mode, words in ((torch.no_grad, "no_grad mode"), (torch.inference_mode, "inference mode")):
        x = torch.zeros(2)
        with mode():
            y = x.view(2)
        y.requires_grad_()
        with pytest.raises(RuntimeError, match=f"^Output 0 of View is a view of a view .* {words}"):
            y.view(2).div_(2)
        y.view(2).sum().backward()
        assert y.grad.tolist() == [1.0, 1.0]


def test_elements_of_a_parameter_can_be_raised_without_gradients(torch):
    weight = torch.nn.Parameter(torch.ones(2, 3))
    with torch.no_grad():
        weight[0, 0] += 100.0
        weight[1] *= 2
        weight[:, 2:] -= weight[:, :1]
    assert weight.tolist() == [[101, 1, -100], [2, 2, 0]] and weight.requires_grad
    (weight * 2).sum().backward()
    assert weight.grad.tolist() == [[2] * 3] * 2
