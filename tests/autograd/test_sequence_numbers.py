"""The order in which nodes that are ready run: that of their numbers, from the highest."""

from __future__ import annotations


def test_of_nodes_that_are_ready_the_one_with_the_highest_number_runs_first(torch):
    x, y = torch.ones(1, requires_grad=True), torch.tensor([2.0], requires_grad=True)
    first, second = x + y, x * y
    result = first + second
    for number, part in zip((100, 99, 98), (first, second, result), strict=True):
        part.grad_fn._set_sequence_nr(number)
    assert first.grad_fn._sequence_nr() == 100
    order = []
    first.register_hook(lambda g: order.append("first"))
    second.register_hook(lambda g: order.append("second"))
    result.sum().backward()
    assert order == ["first", "second"] and x.grad.item() == 3
