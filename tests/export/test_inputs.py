"""Inputs of exported programs: names that meet, starred arguments, keywords in any order."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.export import Dim, export


def full(value):
    return torch.full((2,), value)


class Starred(nn.Module):
    def forward(self, a, b, *args, kw1, kw2):
        return a + b + args[0] * kw1 - kw2


def test_keywords_behind_starred_arguments():
    args, words = (full(1.0), full(2.0), full(3.0)), {"kw1": full(4.0), "kw2": full(5.0)}
    module = export(Starred(), args, words).module()
    assert torch.equal(module(*args, **words), Starred()(*args, **words))


class NamedLikeItsState(nn.Module):
    def __init__(self):
        super().__init__()
        self.param = nn.Parameter(full(1.0))

    def forward(self, p_param):
        return p_param * 3 + self.param


def test_an_input_named_like_a_parameter():
    assert torch.equal(export(NamedLikeItsState(), (full(2.0),)).module()(full(2.0)), full(7.0))


class Keywords(nn.Module):
    def forward(self, x, *, kw1, kw2):
        return x.sum() + kw1.sum() + kw2.sum()


def test_sizes_of_keywords_in_another_order():
    program = export(Keywords(), (full(1.0),), {"kw1": torch.ones(3), "kw2": torch.ones(4)})
    assert program.module()(full(1.0), kw2=torch.ones(4), kw1=torch.ones(3)).item() == 9
    with pytest.raises(AssertionError, match=r"Guard failed: kw2.size\(\)\[0\] == 4"):
        program.module()(full(1.0), kw2=torch.ones(3), kw1=torch.ones(3))


class AsksForAValue(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class LoopsOverASize(nn.Module):
    def forward(self, x):
        for _ in range(x.shape[0]):
            x = x + 1
        return x


def test_programs_that_no_graph_holds_are_user_errors():
    error = torch._dynamo.exc.UserError
    with pytest.raises(error, match="Could not guard on data-dependent expression"):
        export(AsksForAValue(), (full(1.0),))
    with pytest.raises(error, match="Constraints violated"):
        export(LoopsOverASize(), (full(1.0),), dynamic_shapes=({0: Dim("n")},))


class Attends(nn.Module):
    def forward(self, q):
        return nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.0, is_causal=True)


def test_attention_with_keywords_is_taken_apart():
    q = torch.randn(1, 2, 3, 4)
    program = export(Attends(), (q,)).run_decompositions()
    assert torch.allclose(program.module()(q), Attends()(q), atol=1e-6)


class Several(nn.Module):
    def forward(self, x, *args, **words):
        return x + args[0] + words["k"]


def test_dynamic_dimensions_of_several_arguments():
    """A spec for `*args` or `**kwargs` holds those of all the arguments that these take."""
    rows, x, y = {0: Dim("rows")}, torch.ones(3, 2), torch.ones(5, 2)
    for spec in ((rows, (rows,), {"k": rows}), {"x": rows, "args": (rows,), "words": {"k": rows}}):
        module = export(Several(), (x, x), {"k": x}, dynamic_shapes=spec).module()
        assert torch.equal(module(y, y, k=y), 3 * y)
    error = torch._dynamo.exc.UserError
    for spec, message in (
        ((rows, rows), r"`inputs` has 3 elements, but `dynamic_shapes` has 2 elements"),
        ((rows, (rows, rows), None), r"`inputs\['args'\]` has 1 elements, but `dynamic_shapes"),
        ((rows, None, {"z": rows}), r"`inputs\['words'\]` has keys \['k'\], but `dynamic_shapes"),
        ({"k": rows}, r"the arg names \['x', 'args', 'words'\] of `inputs`"),
    ):
        with pytest.raises(error, match=message):
            export(Several(), (x, x), {"k": x}, dynamic_shapes=spec)
