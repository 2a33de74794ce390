"""gradcheck: what it accepts, and how it names what is wrong."""

from __future__ import annotations

import itertools

import pytest


def doubles(torch, *shape, **options):
    return torch.ones(*shape, requires_grad=True, **{"dtype": torch.float64, **options})


def with_wrong_gradient(y):
    y.register_hook(lambda g: g + 1e-2)
    return y


@pytest.mark.parametrize("fast", [False, True])
def test_wrong_gradients_are_named_by_output_and_input(torch, fast):
    x, y = doubles(torch, 2), doubles(torch, 2)

    def function(a, b):
        return a * b, with_wrong_gradient(a + 2 * b)

    # 0.01 more than right for each number: only the second output is wrong.
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 1 with respect to input"):
        torch.autograd.gradcheck(function, (x, y), fast_mode=fast)
    assert not torch.autograd.gradcheck(function, (x, y), raise_exception=False, fast_mode=fast)


def test_parts_of_complex_outputs_are_named(torch):
    x = doubles(torch, 2, dtype=torch.complex128)
    for function, argument in (
        (lambda a: with_wrong_gradient(a.clone()), x),
        (lambda a: with_wrong_gradient(torch.complex(a, a)), doubles(torch, 2)),
    ):
        with pytest.raises(RuntimeError, match="While considering the imaginary part of complex "
                           "outputs only, Jacobian mismatch for output 0"):
            torch.autograd.gradcheck(function, (argument,))
    with pytest.raises(RuntimeError, match="^Jacobian mismatch for output 0"):
        torch.autograd.gradcheck(lambda a: with_wrong_gradient(torch.real(a)), (x,))


def test_gradients_must_be_multiples_of_the_cotangent(torch):
    x = doubles(torch, 1)
    with pytest.raises(RuntimeError, match="backward not multiplied by grad_output"):
        torch.autograd.gradcheck(lambda a: with_wrong_gradient(a.clone()), (x,), atol=0.1)


def test_the_layout_of_gradients_is_compared(torch):
    class Sparse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g.to_sparse()

    with pytest.raises(RuntimeError, match="grad is incorrect layout"):
        torch.autograd.gradcheck(Sparse.apply, (doubles(torch, 2),))


def test_outputs_without_a_gradient_must_not_follow_the_inputs(torch):
    x = doubles(torch, 1)
    with pytest.raises(RuntimeError, match="Numerical gradient for function expected to be zero"):
        torch.autograd.gradcheck(lambda a: a.detach() * 2, (x,))
    assert torch.autograd.gradcheck(lambda a: (), (x,))


def test_inputs_are_checked(torch):
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        torch.autograd.gradcheck(lambda a: a, (torch.ones(1),), raise_exception=False)
    x = torch.ones(1, requires_grad=True)
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double"):
        assert torch.autograd.gradcheck(lambda a: a * 1, (x,), atol=0.1)
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        torch.autograd.gradcheck(lambda a: a, (doubles(torch, 1).expand(2, 2),))
    with pytest.raises(AssertionError, match="Expected at least one of check_forward_ad or"):
        torch.autograd.gradcheck(lambda a: a, (doubles(torch, 1),), check_backward_ad=False)


def test_batched_gradients_are_compared(torch):
    class ReadsNumbers(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 if g.sum().item() >= 0 else 2 * g

    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: x.sin() * x, (x,), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: x.sin() * x, (x,), check_batched_grad=True)
    assert torch.autograd.gradcheck(ReadsNumbers.apply, (x,))
    with pytest.raises(RuntimeError, match="failed while testing batched gradient"):
        torch.autograd.gradcheck(ReadsNumbers.apply, (x,), check_batched_grad=True)


@pytest.mark.parametrize("fast", [True, False])
def test_outputs_must_not_change_shape_or_dtype(torch, fast):
    def longer(x):
        return torch.cat([x, x]) if (x >= 1).all() else x

    def narrower(x):
        return x.float() if (x >= 1).all() else x

    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    for function, kind in ((longer, "shape"), (narrower, "dtype")):
        with pytest.raises(AssertionError, match=f"outputs with the same {kind} when inputs are"):
            torch.autograd.gradcheck(function, (x,), fast_mode=fast)
    assert x.item() == 1


def test_sums_of_float32_outputs_are_of_double_precision(torch):
    x = torch.full((1000,), 0.9, requires_grad=True)
    with pytest.warns(UserWarning, match="not a double precision"):
        assert torch.autograd.gradcheck(lambda x: x, (x,), eps=1e-3, atol=1e-2, fast_mode=False)


def test_a_kernel_that_begins_at_the_second_pass_is_no_nondeterminism():
    import flambeau as torch
    from flambeau.autograd.gradcheck import GradcheckError

    class Rounded(torch.autograd.Function):
        """Twice the input; each pass adds the next of `errors` to the gradient."""

        errors = itertools.chain([1e-12], itertools.repeat(0))

        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g + next(Rounded.errors)

    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Rounded.apply, (x,), check_undefined_grad=False)
    Rounded.errors = (i * 1e-12 for i in itertools.count())
    with pytest.raises(GradcheckError, match="not reentrant"):
        torch.autograd.gradcheck(Rounded.apply, (x,))


def test_fast_mode_takes_two_calls_of_many_numbers(torch):
    calls = []

    def normalize(x):
        calls.append(0)
        return torch.nn.functional.layer_norm(x, (40, 40, 20))

    x = torch.randn(2, 40, 40, 20, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(normalize, (x,), fast_mode=True, check_undefined_grad=False)
    assert len(calls) < 20


@pytest.mark.parametrize("fast", [True, False])
def test_sparse_gradients_divide_their_axes_as_inputs_do(torch, fast):
    def function(x):
        y = x.clone()
        y.register_hook(lambda g: g.to_dense().to_sparse(1))
        return y.to_dense()

    x = torch.ones(2, 2, dtype=torch.float64, requires_grad=True).to_sparse()
    settings = {"masked": True, "fast_mode": fast}
    assert torch.autograd.gradcheck(lambda x: x.clone().to_dense(), (x,), **settings)
    with pytest.raises(RuntimeError, match="is sparse tensor, but has incorrect sparse_dim 1, ex"):
        torch.autograd.gradcheck(function, (x,), **settings)


def test_batched_tangents_of_functions_without_setup_context(torch):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def jvp(ctx, t):
            if draws:
                torch.randn_like(t)
            return t * 2

    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    settings = {"check_forward_ad": True, "check_backward_ad": False,
                "check_batched_forward_grad": True}
    draws = False
    assert torch.autograd.gradcheck(Twice.apply, (x,), **settings)
    draws = True
    with pytest.raises(RuntimeError, match="We do not yet support calling random operations insid"):
        torch.autograd.gradcheck(Twice.apply, (x,), **settings)
