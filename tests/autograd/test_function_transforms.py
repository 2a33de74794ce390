"""Custom Functions under forward mode and func's transforms: checks of jvp and vmap."""

from __future__ import annotations

import pytest


def _function(torch, forward, jvp):
    return type("F", (torch.autograd.Function,), {
        "forward": staticmethod(forward), "jvp": staticmethod(lambda ctx, *t: jvp(*t))})


def _double_in_place(ctx, x):
    ctx.mark_dirty(x)
    return x.mul_(2)


def _part(ctx, x):
    return x[:2]


@pytest.mark.parametrize(("forward", "jvp", "message"), [
    (_part, lambda t: t[:2].clone(), "but the jvp is not returning a view"),
    (_part, lambda t: t[:2].clone()[:], "not returning a view of the given grad input"),
    (lambda ctx, x: x, lambda t: t, "or an input as-is"),
    (_double_in_place, lambda t: t * 2, "is not modifying the forward mode gradients inplace"),
    (_double_in_place, lambda t: t.mul_(2) * 1, None),
    (lambda ctx, x: x + 1, lambda t: (t, t), r"expected 1 but got 2"),
    (lambda ctx, x: x + 1, lambda t: t[0], "different size than that of the original"),
    (lambda ctx, x: x + 1, lambda t: 1.0, "expected Variable or None"),
    (lambda ctx, x: x.argmax(), lambda t: t[0], "You should return None at that position"),
])
def test_jvp_results_are_checked(torch, forward, jvp, message):
    function = _function(torch, forward, jvp)
    with torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3))
        with pytest.raises(RuntimeError, match=message):
            function.apply(x)


def test_an_input_written_in_place_is_the_dual_itself(torch):
    function = _function(torch, _double_in_place, lambda t: t.mul_(2))
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        tangent = torch.ones(3)
        x = forward_ad.make_dual(torch.ones(3), tangent)
        assert function.apply(x) is x
        assert forward_ad.unpack_dual(x).tangent is tangent
        assert forward_ad.unpack_dual(x).primal.tolist() == [2, 2, 2]
    assert tangent.tolist() == [2, 2, 2]


def test_nested_levels_go_through_the_functions_own_jvp():
    import flambeau as torch  # PyTorch pushes zeros to the outer level

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return torch.from_numpy(x.detach().numpy() ** 3)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def jvp(ctx, t):
            x, = ctx.saved_tensors
            return 3 * x * x * t

    def slope(x):
        return torch.func.jvp(Cube.apply, (x,), (torch.ones(1),))[1]

    _, second = torch.func.jvp(slope, (torch.tensor([2.0]),), (torch.ones(1),))
    assert second.tolist() == [12.0]


def test_keywords_of_apply(torch):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x, factor=2):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

    x = torch.ones(2, requires_grad=True)
    Scale.apply(x, factor=3).sum().backward()
    assert x.grad.tolist() == [3, 3]
    with pytest.raises(TypeError):
        Scale.apply(x, other=3)


@pytest.mark.parametrize(("rule", "generate", "message"), [
    (lambda info, dims, x: (x, (None,)), False, "returned an incompatible"),
    (lambda info, dims, x: ([x], 0, 0), False, "Got 3 returns instead"),
    (lambda info, dims, x: x, False, "two returns"),
    (lambda info, dims, x: (x, 0), True, "both generate_vmap_rule=True and an overridden vmap"),
])
def test_vmap_rules_are_checked(torch, rule, generate, message):
    class F(torch.autograd.Function):
        generate_vmap_rule = generate
        forward = staticmethod(lambda x: x.clone())
        setup_context = staticmethod(lambda ctx, inputs, output: None)
        vmap = staticmethod(rule)

    with pytest.raises(RuntimeError, match=message):
        torch.vmap(F.apply)(torch.ones(3))


def test_jacrev_of_one_row_at_a_time_needs_no_vmap(torch):
    class Reads(torch.autograd.Function):
        forward = staticmethod(lambda x: x * 2)
        setup_context = staticmethod(lambda ctx, inputs, output: None)

        @staticmethod
        def backward(ctx, g):
            assert g.nonzero().shape[1]
            return g * 2

    x = torch.ones(2)
    assert torch.func.jacrev(Reads.apply, chunk_size=1)(x).tolist() == [[2, 0], [0, 2]]
    with pytest.raises(RuntimeError, match="dynamic shape"):
        torch.func.jacrev(Reads.apply, chunk_size=2)(x)
