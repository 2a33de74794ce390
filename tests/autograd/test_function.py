"""torch.autograd.Function: the user's own operators."""

from __future__ import annotations

import importlib

import pytest


def exponential(torch):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    return Exp


def leaf(torch, *values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_first_and_second_derivative(torch):
    x = leaf(torch, 0.5, -1.0)
    y = exponential(torch).apply(x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), x)
    assert torch.allclose(g, x.exp())
    assert torch.allclose(gg, x.exp())
    assert torch.autograd.gradcheck(exponential(torch).apply, (x,))
    assert torch.autograd.gradgradcheck(exponential(torch).apply, (x,))


def test_the_node_is_named_for_the_class(torch):
    y = exponential(torch).apply(leaf(torch, 1.0))
    assert y.grad_fn.name() == "ExpBackward"
    assert not y.is_leaf
    assert y.requires_grad


def test_forward_is_not_recorded(torch):
    seen = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(torch.is_grad_enabled())
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(torch.is_grad_enabled())
            return g * 2

    x = leaf(torch, 1.0)
    Watch.apply(x).sum().backward()
    torch.autograd.grad(Watch.apply(x).sum(), x, create_graph=True)
    assert seen == [False, False, False, True]


def test_no_input_requires_grad(torch):
    y = exponential(torch).apply(torch.ones(2))
    assert not y.requires_grad
    assert y.grad_fn is None
    with torch.no_grad():
        assert not exponential(torch).apply(leaf(torch, 1.0)).requires_grad


def test_several_inputs_and_outputs(torch):
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, scale, b):
            assert ctx.needs_input_grad == (True, False, False)
            ctx.scale = scale
            return a * scale, b + a

        @staticmethod
        def backward(ctx, first, second):
            return first * ctx.scale + second, None, second

    a, b = leaf(torch, 1.0, 2.0), torch.ones(2, dtype=torch.float64)
    p, q = Both.apply(a, 3, b)
    assert p.output_nr == 0
    assert q.output_nr == 1
    (p.sum() + 2 * q.sum()).backward()
    assert a.grad.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("materialize", [True, False])
def test_missing_gradients(torch, materialize):
    seen = []

    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x.clone(), x.clone()

        @staticmethod
        def backward(ctx, first, second):
            seen.append(second)
            return first

    Two.apply(leaf(torch, 1.0, 2.0))[0].sum().backward()
    assert (seen[0].tolist() == [0.0, 0.0]) if materialize else seen[0] is None


def test_non_differentiable_output(torch):
    class Sort(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y, where = x.sort()
            half = x / 2
            ctx.mark_non_differentiable(where, half)
            ctx.save_for_backward(where)
            return y, where, half

        @staticmethod
        def backward(ctx, g, g_where, g_half):
            assert g_half.tolist() == [0.0, 0.0, 0.0]
            (where,) = ctx.saved_tensors
            return torch.zeros_like(g).scatter(0, where, g)

    x = leaf(torch, 3.0, 1.0, 2.0)
    y, where, half = Sort.apply(x)
    assert y.requires_grad
    assert not where.requires_grad
    assert not half.requires_grad
    (y * torch.arange(3)).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 1.0]


def test_dirty_input(torch):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(torch, 1.0, 2.0)
    y = x.clone()
    z = Double.apply(y)
    assert z is y
    assert y.grad_fn.name() == "DoubleBackward"
    assert y._version == 2
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_dirty_leaf_is_refused(torch):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Double.apply(leaf(torch, 1.0))


def test_dirty_view_rewrites_its_base(torch):
    class Zero(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.zero_()
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 0

    x = leaf(torch, 1.0, 2.0, 3.0)
    y = x * 2
    Zero.apply(y[:2])
    y.sum().backward()
    assert y.tolist() == [0.0, 0.0, 6.0]
    assert x.grad.tolist() == [0.0, 0.0, 2.0]


def test_input_returned_as_it_came(torch):
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = leaf(torch, 1.0)
    y = Same.apply(x)
    assert y is not x
    assert y.grad_fn is not None
    assert x.is_leaf
    y.sum().backward()
    assert x.grad.item() == 3


def test_setup_context(torch):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(x, scale):
            return x * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, ctx.scale = inputs
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            assert ctx.saved_tensors[0].tolist() == [4.0]
            return g * ctx.scale, None

    x = leaf(torch, 2.0)
    Scaled.apply(x, 2).sum().backward()
    assert x.grad.item() == 2


def test_once_differentiable(torch):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x**2

    x = leaf(torch, 2.0)
    (g,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    assert g.item() == 12
    assert not g.requires_grad
    cotangent = leaf(torch, 1.0)
    (g,) = torch.autograd.grad(Cube.apply(x), x, cotangent, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.backward()


def test_saved_tensors_are_checked_and_freed(torch):
    x = leaf(torch, 1.0)
    y = exponential(torch).apply(x * 1)
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    z = exponential(torch).apply(x).sum()
    z.backward()
    with pytest.raises(RuntimeError, match="second time"):
        z.backward()


def test_wrong_results_of_backward(torch):
    def returning(what):
        class Bad(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return what

        return Bad.apply(leaf(torch, 1.0, 2.0)).sum()

    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        returning((torch.ones(2), torch.ones(2))).backward()
    with pytest.raises(RuntimeError, match="invalid gradient at index 0"):
        returning(torch.ones(3, dtype=torch.float64)).backward()
    with pytest.raises(RuntimeError, match="expected Variable or None"):
        returning(1.0).backward()


def test_backward_of_another_dtype_is_cast(torch):
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g.float()

    x = leaf(torch, 1.0)
    Same.apply(x).sum().backward()
    assert x.grad.dtype == torch.float64


def test_it_is_not_instantiated(torch):
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        exponential(torch)()


def test_missing_methods(torch):
    class Nothing(torch.autograd.Function):
        pass

    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    with pytest.raises(NotImplementedError, match="forward"):
        Nothing.apply(leaf(torch, 1.0))
    with pytest.raises(NotImplementedError, match="backward or vjp"):
        Half.apply(leaf(torch, 1.0)).sum().backward()


def test_errors_in_backward_come_through(torch):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Fails.apply(leaf(torch, 1.0)).sum().backward()


def test_backward_inside_backward(torch):
    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin() * x

        @staticmethod
        def backward(ctx, g):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                y = x.sin() * x
            y.backward(g)
            return x.grad

    x = leaf(torch, 0.3, 2.0)
    (Recompute.apply(x * 2) ** 2).sum().backward()
    expected = x.detach().requires_grad_()
    (((expected * 2).sin() * (expected * 2)) ** 2).sum().backward()
    assert torch.allclose(x.grad, expected.grad)


def test_outputs_that_are_no_tensors_get_no_gradient(torch):
    class Mixed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 3, x * 2, None, "bar"

        @staticmethod
        def backward(ctx, *grads):
            assert grads[0] is None and grads[2:] == (None, None)
            return grads[1] * 2

    x = torch.ones(2, requires_grad=True)
    Mixed.apply(x)[1].sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("materialized", [True, False])
def test_zeros_for_outputs_without_a_derivative(torch, materialized):
    seen = []

    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            constant = x.clone()
            ctx.mark_non_differentiable(constant)
            ctx._materialize_non_diff_grads = materialized
            return x.clone(), constant

        @staticmethod
        def backward(ctx, g, of_constant):
            seen.append(of_constant)
            return g

    Two.apply(torch.ones(1, requires_grad=True))[0].backward()
    assert (seen[0] is not None) == materialized


def test_a_function_cannot_be_called(torch):
    class Double(torch.autograd.Function):
        def forward(self, x):
            return x

    with pytest.warns(DeprecationWarning, match="not be instantiated"), \
            pytest.raises(RuntimeError, match="Legacy autograd function"):
        Double()(torch.ones(1))


def test_functions_of_first_versions(torch):
    resize = importlib.import_module(f"{torch.__name__}.autograd._functions").Resize
    x = torch.ones(2, 3, requires_grad=True)
    resize.apply(x, (6,)).sum().backward()
    assert x.grad.shape == (2, 3)
    with pytest.raises(RuntimeError, match="requested resize to 7"):
        resize.apply(x, (7,))
    with pytest.raises(RuntimeError, match="Boom!"):
        torch._C._functions.DelayedError("Boom!", 1)(x * 2).sum().backward()


def test_an_input_handed_back_is_a_view_that_may_not_be_written(torch):
    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *tensors):
            return tensors if len(tensors) > 1 else tensors[0]

        @staticmethod
        def backward(ctx, *grads):
            return tuple(g * 2 for g in grads)

    x = leaf(torch, 1.0) * 1
    for b in Identity.apply(x, leaf(torch, 2.0)):
        with pytest.raises(RuntimeError, match="of Identity is a view .* returns multiple views"):
            b.mul_(2)
    a = Identity.apply(x)
    assert a._base is x
    with pytest.raises(RuntimeError, match="Output 0 of Identity .* created inside a custom"):
        a.mul_(2)
    (g,) = torch.autograd.grad(a[0] * a.sum(), x)
    assert g.tolist() == [4.0]


def test_a_view_made_in_a_function_may_not_come_to_require_grad(torch):
    class Whole(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:]

        @staticmethod
        def backward(ctx, g):
            return g

    class Handed(Whole):
        @staticmethod
        def forward(ctx, x):
            return x

    for function in (Whole, Handed):
        y = function.apply(torch.zeros(2))
        y.add_(1)  # nothing is recorded
        with pytest.raises(RuntimeError, match="created inside a custom Function"):
            y.mul_(leaf(torch, 1.0, 2.0))
        with pytest.raises(RuntimeError, match="created inside a custom Function"):
            y.copy_(leaf(torch, 1.0, 2.0))
    y = Whole.apply(leaf(torch, 1.0, 2.0) * 1).view(2, 1)
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        y.mul_(2)


def test_what_is_marked_as_written_must_be_returned(torch):
    def function(several, returned):
        class Written(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x.mul_(2)
                ctx.mark_dirty(x)
                y = x if returned else x.clone()
                return (y, x * 2) if several else y

            @staticmethod
            def backward(ctx, *grads):
                return grads[0]

        return Written

    x = leaf(torch, 1.0, 2.0)
    with pytest.raises(RuntimeError, match="were not returned as output"):
        function(several=False, returned=False).apply(x * 1)
    with pytest.raises(RuntimeError, match="an input that is a view of another Tensor"):
        function(several=True, returned=True).apply((x * 1)[:1])
    y, _ = function(several=True, returned=True).apply(x * 1)
    assert y.grad_fn.name() == "WrittenBackward"


def test_setup_context_sees_defaults(torch):
    class Power(torch.autograd.Function):
        @staticmethod
        def forward(x, y=3):
            return x**y

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.y = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * ctx.y * x ** (ctx.y - 1), None

    x = leaf(torch, 2.0)
    Power.apply(x).sum().backward()
    assert x.grad.tolist() == [12.0]


def test_backward_and_vjp_are_one_too_many(torch):
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

        vjp = staticmethod(lambda ctx, g: g * 2)

    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(leaf(torch, 1.0)).sum().backward()


def test_a_subclass_that_is_handed_back_keeps_its_class(torch):
    class Wrapped(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    assert type(Same.apply(torch.ones(2).as_subclass(Wrapped))) is Wrapped


def test_marking_what_is_no_input_warns(torch):
    class New(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.warns(UserWarning, match="received a tensor that was not an input"):
        New.apply(leaf(torch, 1.0))


def test_fast_gradcheck_moves_every_input_in_one_direction(torch):
    calls = []

    def function(x, y):
        calls.append(x)
        return (x.sin() * y).sum(), x.exp()

    def wrong(x):
        y = x.clone()
        y.register_hook(lambda g: g + 1e-2)
        return y

    x, y = (torch.rand(20, dtype=torch.double, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(function, (x, y), fast_mode=True)
    assert len(calls) < 10  # two for each input, not for each of 40 numbers
    assert torch.autograd.gradgradcheck(function, (x, y), fast_mode=True)
    z = torch.rand(4, dtype=torch.cdouble, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: z * z.abs() + z.conj(), (z,), fast_mode=True)
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input"):
        torch.autograd.gradcheck(wrong, (x,), fast_mode=True)


def test_a_gradient_marked_once_differentiable_ends_in_an_error(torch):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor, y):
            ctx.factor = factor
            ctx.save_for_backward(x, y)
            return x * y * factor

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y * ctx.factor, None, g * x * ctx.factor

    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    outer = torch.ones(2, requires_grad=True)
    gx, _ = torch.autograd.grad(Product.apply(x, 2, y), (x, y), outer, create_graph=True)
    assert type(gx.grad_fn).__name__ == "Error"
    assert [type(node).__name__ for node, _ in gx.grad_fn.next_functions] == \
        ["AccumulateGrad", "NoneType", "AccumulateGrad"]
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        gx.sum().backward()


@pytest.mark.parametrize("save", ["save_for_backward", "save_for_forward"])
@pytest.mark.parametrize("what", ["input", "output"])
def test_an_input_that_is_returned_and_saved_is_refused(torch, save, what):
    class Identity(torch.autograd.Function):
        is_dirty = False

        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            if Identity.is_dirty:
                ctx.mark_dirty(*inputs)
            getattr(ctx, save)(inputs[0] if what == "input" else output)

        @staticmethod
        def backward(ctx, g):
            return g

    for x in (torch.ones(2), torch.ones(2, requires_grad=True).clone()):
        with pytest.raises(RuntimeError, match="has been returned as-is as output is being saved"):
            Identity.apply(x)
    Identity.is_dirty = True
    assert Identity.apply(torch.ones(2)).tolist() == [1, 1]
