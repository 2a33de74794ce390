"""Derivatives and vmap rules of custom operators that take and return lists of tensors."""

from collections.abc import Sequence

import pytest


def test_gradients_of_a_list_of_results_come_as_a_list(torch):
    @torch.library.custom_op("flambeau_lists::split", mutates_args=())
    def split(x: torch.Tensor, sizes: Sequence[int]) -> tuple[list[torch.Tensor], int]:
        return [part.clone() for part in x.split(sizes)], len(sizes)

    seen = []

    def backward(ctx, gradients, count):
        seen.append((type(gradients).__name__, len(gradients), count, ctx.needs_input_grad))
        return torch.cat(gradients), None

    split.register_autograd(backward, setup_context=lambda ctx, inputs, output: None)
    x = torch.arange(5.0, requires_grad=True)
    parts, count = split(x, [2, 3])
    assert type(parts) is list and count == 2
    (parts[0].sum() + 3 * parts[1].sum()).backward()
    assert x.grad.tolist() == [1, 1, 3, 3, 3]
    assert seen == [("list", 2, None, (True, False))]


def test_gradients_reach_the_tensors_of_a_list(torch):
    @torch.library.custom_op("flambeau_lists::join", mutates_args=())
    def join(xs: Sequence[torch.Tensor], scale: float) -> torch.Tensor:
        return torch.cat([scale * x for x in xs])

    needs = []

    def setup(ctx, inputs, output):
        ctx.lengths, ctx.scale = [len(x) for x in inputs[0]], inputs[1]

    def backward(ctx, g):
        needs.append(ctx.needs_input_grad)
        return [ctx.scale * part for part in g.split(ctx.lengths)], None

    join.register_autograd(backward, setup_context=setup)
    a, b = torch.ones(2, requires_grad=True), torch.ones(1)
    (join([a, b], 3.0) * torch.tensor([1.0, 2.0, 5.0])).sum().backward()
    assert a.grad.tolist() == [3, 6] and b.grad is None
    assert [[tuple(need[0]), need[1]] for need in needs] == [[(True, False), False]]


def test_too_few_gradients_are_refused(torch):
    @torch.library.custom_op("flambeau_lists::twice", mutates_args=())
    def twice(x: torch.Tensor, times: int) -> torch.Tensor:
        return x * times

    twice.register_autograd(lambda ctx, g: g * 2)
    with pytest.raises(RuntimeError, match="returned an incorrect number of gradients"):
        twice(torch.ones(2, requires_grad=True), 2).sum().backward()


def test_the_rule_of_a_vmap_serves_where_a_shared_tensor_requires_grad(torch):
    @torch.library.custom_op("flambeau_lists::scale", mutates_args=())
    def scale(x: torch.Tensor, factor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        return (x * factor).reshape(shape)

    seen = []

    def rule(info, in_dims, x, factor, shape):
        seen.append(in_dims)
        return x * factor.reshape(-1, 1, 1), 0

    scale.register_autograd(lambda ctx, g: (g, None, None))
    scale.register_vmap(rule)
    x = torch.ones(1, 2, requires_grad=True)
    y = torch.vmap(lambda factor: scale(x, factor, x.shape))(torch.arange(3.0))
    assert y.shape == (3, 1, 2) and seen == [(None, 0, [None, None])]
    y.sum().backward()
    assert x.grad.tolist() == [[3, 3]]


def test_saved_argument_that_is_returned_stays_the_argument(torch):
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            seen.extend(ctx.saved_tensors)
            return g, None

    seen = []
    x = torch.ones(2, requires_grad=True)
    y = Same.apply(x, None)
    y.sum().backward()
    assert y is not x and y.grad_fn is not None
    assert seen[0] is x
