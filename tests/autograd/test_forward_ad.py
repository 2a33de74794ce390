"""Forward mode: dual numbers, func.jvp and what is built on it, against reverse mode."""

from __future__ import annotations

import gc
import weakref

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.autograd import forward_ad
from flambeau.ops.interception import code_patching
from flambeau.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vmap

F64 = torch.float64


def rand(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, dtype=F64) + 0.5


def written_in_place(x):
    y = torch.zeros(3, 4, dtype=F64)
    y[0] = x[0] * x[1]
    y[1].mul_(3)
    y.add_(x)
    y[torch.tensor([0, 2])] = x[:2].exp()
    z = x.clone()
    z[0].copy_(x[1])
    z.masked_fill_(z > 1.4, 0.5)
    return (y * z).cumsum(0)


FUNCTIONS = {
    "products": (lambda x, y: x @ y + (x * 2).sum(), (3, 4), (4, 5)),
    "pointwise": (
        lambda x, y: 2 / x + torch.sin(x) * y**3 - torch.where(x > 1, x, y), (3, 4), (4,)),
    "softmax": (lambda x: torch.softmax(x, -1).log(), (3, 4)),
    "solve": (lambda x, y: torch.linalg.solve(x @ x.T + torch.eye(3, dtype=F64), y), (3, 3), (3,)),
    "views": (lambda x: x.T.reshape(2, 6).flip(1)[1].view(3, 2).unbind(1)[0], (3, 4)),
    "convolution": (lambda x, w, b: F.conv2d(x, w, b), (2, 3, 6, 6), (4, 3, 3, 3), (4,)),
    "norms": (lambda x: F.layer_norm(x, (4,)) + x.norm() + x.std(0), (3, 4)),
    "pools": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2), (1, 2, 4, 4)),
    "slices": (lambda x: torch.cat([x[:1].tanh(), x[1:], x[::2], x[:, 1:3].repeat(1, 2)]), (3, 4)),
    "joins": (lambda x, y: torch.cat([torch.stack([x, x], 0).sum(0), y]), (3, 4), (1, 4)),
    "in place": (written_in_place, (3, 4)),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q), (2, 3, 4)),
    "padding": (lambda x: F.pad(x, (1, 1), value=3.0), (3, 4)),
    "sorting": (lambda x: x.sort(1).values * x.max(1, keepdim=True).values, (3, 4)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents_agree_with_differences(name):
    function, *shapes = FUNCTIONS[name]
    torch.manual_seed(0)
    inputs = tuple(rand(*shape).requires_grad_() for shape in shapes)
    assert torch.autograd.gradcheck(
        function, inputs, check_forward_ad=True, check_backward_ad=False)


def test_complex_tangents_agree_with_differences():
    torch.manual_seed(0)
    x = torch.complex(rand(3), rand(3)).requires_grad_()
    functions = (
        torch.sin, torch.abs, lambda z: z * z.conj(), torch.fft.fft, torch.view_as_real)
    for function in functions:
        assert torch.autograd.gradcheck(function, (x,), check_forward_ad=True)


def test_dual_numbers_have_levels():
    x, t = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0])
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(x, t)
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            forward_ad.enter_dual_level()
        dual = forward_ad.make_dual(x, t)
        primal, tangent = forward_ad.unpack_dual(dual * dual)
        assert primal.tolist() == [1.0, 4.0]
        assert tangent.tolist() == [2.0, 0.0]
        assert forward_ad.unpack_dual(x).tangent is None
        assert forward_ad.unpack_dual(dual.detach()).tangent is None
        with forward_ad.set_forward_mode_enabled(False):
            assert forward_ad.unpack_dual(dual * 2).tangent is None
        with pytest.raises(RuntimeError, match="different size"):
            forward_ad.make_dual(x, torch.ones(3))
    assert forward_ad.unpack_dual(dual).tangent is None


def test_operators_are_their_own_again_some_calls_after_the_last_level(plain_functions):
    code_patching.end_lingering()
    before = torch.sin.__code__, torch.Tensor.__mul__.__code__
    x = torch.ones(1)
    for end in (code_patching.is_anything_swapped, lambda: [torch.sin(x) for _ in range(1001)]):
        with forward_ad.dual_level():
            assert torch.sin.__code__ is not before[0]
        with forward_ad.dual_level():  # another level soon after finds the stubs there
            pass
        assert torch.sin.__code__ is not before[0]
        end()
        assert (torch.sin.__code__, torch.Tensor.__mul__.__code__) == before


def test_derivatives_nest_in_every_order():
    torch.manual_seed(0)
    x = rand(4)

    def function(x):
        return (x**3).sum() + (x.sin() * x.exp().prod()).sum() + (x @ x) ** 2

    wanted = jacrev(jacrev(function))(x)
    for nested in (hessian, lambda f: jacfwd(jacfwd(f)), lambda f: jacrev(jacfwd(f))):
        actual = nested(function)(x)
        assert torch.allclose(actual, wanted)
        assert not actual.requires_grad
    product = jvp(grad(function), (x,), (torch.ones_like(x),))[1]
    assert torch.allclose(product, wanted.sum(1))


def test_jacobians_of_several_arguments_linearize_and_vmap():
    torch.manual_seed(0)
    x, y = rand(3), rand(3)

    def function(x, y):
        return x.exp() * y.sum(), x + y

    actual = jacfwd(function, (0, 1))(x, y)
    wanted = jacrev(function, (0, 1))(x, y)
    assert all(torch.allclose(f, w) for fs, ws in zip(actual, wanted, strict=True)
               for f, w in zip(fs, ws, strict=True))
    value, push = linearize(lambda x: x.exp() * x.sum(), x)
    basis = torch.eye(3, dtype=F64)
    wanted = jacrev(lambda x: x.exp() * x.sum())(x)
    assert torch.allclose(vmap(push)(basis).T, wanted)
    assert torch.allclose(vmap(lambda t: jvp(lambda x: x.exp() * x.sum(), (x,), (t,))[1])(basis).T,
                          wanted)
    assert torch.allclose(value, x.exp() * x.sum())


class Square(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 2 * x * t


def test_functions_of_the_users_own_push_by_their_jvp():
    x = rand(3).requires_grad_()
    assert torch.autograd.gradcheck(Square.apply, (x,), check_forward_ad=True)

    class Backward(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    with pytest.raises(NotImplementedError, match="You must implement the jvp function"):
        jvp(Backward.apply, (rand(2),), (rand(2),))


def test_gradcheck_finds_a_wrong_tangent():
    class Wrong(Square):
        @staticmethod
        def jvp(ctx, t):
            return t

    with pytest.raises(RuntimeError, match="forward mode mismatch"):
        torch.autograd.gradcheck(Wrong.apply, (rand(3).requires_grad_(),), check_forward_ad=True)


def test_jacobian_and_hessian_by_forward_strategy():
    x, ways = rand(3), ("forward-mode", "reverse-mode")
    both = [torch.autograd.functional.jacobian(
        lambda x: x.exp() * x.sum(), x, vectorize=True, strategy=way) for way in ways]
    assert torch.allclose(*both)
    both = [torch.autograd.functional.hessian(
        lambda x: (x.exp() * x.sum()).sum(), x, vectorize=True, outer_jacobian_strategy=way)
        for way in ways]
    assert torch.allclose(*both)


def test_the_graph_of_a_recorded_jvp_has_no_cycle():
    gc.collect()
    gc.disable()
    try:
        x = rand(3).requires_grad_()
        with forward_ad.dual_level():
            y = forward_ad.make_dual(x, torch.ones_like(x)).exp().tanh()
            seen = weakref.ref(y)
            del y
        assert seen() is None
    finally:
        gc.enable()


def test_comparisons_of_dual_numbers():
    with forward_ad.dual_level():
        assert forward_ad._current_level == 0
        x = forward_ad.make_dual(torch.tensor([1.0, 2.0]), torch.ones(2))
        y = torch.tensor([1.0, 3.0])
        assert (x == y).tolist() == [True, False]
        x.eq_(y)
        assert x.tolist() == [1.0, 0.0]
    assert forward_ad._current_level == -1


def test_a_function_that_runs_without_tangents():
    @forward_ad._set_fwd_grad_enabled(False)
    def square(x):
        return x * x

    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.ones(1), torch.ones(1))
        assert forward_ad.unpack_dual(square(x)).tangent is None
        assert forward_ad._is_fwd_grad_enabled()
        assert forward_ad.unpack_dual(x * x).tangent.tolist() == [2]


DRAWS = {
    "cauchy_": lambda x: x.clone().cauchy_(),
    "uniform_": lambda x: x.clone().uniform_(1, 2),
    "bernoulli_": lambda x: x.clone().bernoulli_(x),
    "a part": lambda x: x.clone()[1:].normal_(),
    "bernoulli": torch.bernoulli,
    "poisson": torch.poisson,
    "normal": lambda x: torch.normal(x, torch.ones(3)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_do_not_follow_their_parameters(name):
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.full((3,), 0.5), torch.ones(3))
        y = DRAWS[name](x)
        assert not forward_ad.unpack_dual(y).tangent.any()
        assert forward_ad.unpack_dual(x).tangent.all()


def test_a_tangent_lies_in_memory_as_its_primal() -> None:
    """One with other strides or another size of memory is copied; one with the same is not."""
    with forward_ad.dual_level():
        x = torch.randn(3, 2).t()
        dual = forward_ad.make_dual(x, torch.randn(2, 3))
        assert forward_ad.unpack_dual(dual).tangent.stride() == x.stride()
        part, tangent = torch.randn(5)[:4].detach(), torch.randn(4)
        inputs = tangent.clone()
        copy = forward_ad.unpack_dual(forward_ad.make_dual(part, tangent)).tangent
        copy *= 2
        assert torch.equal(tangent, inputs)
        assert copy.as_strided((5,), (1,), 0).shape == (5,)
        other = torch.randn(3, 2).t()
        assert forward_ad.unpack_dual(forward_ad.make_dual(x, other)).tangent is other


def test_detach_in_place_drops_the_tangent() -> None:
    """What is computed from it has none."""
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2)).clone()
        assert forward_ad.unpack_dual(dual.detach_() * 2).tangent is None


class _Wrong(torch.autograd.Function):
    """Doubles; its tangent is right unless the second input has none."""

    @staticmethod
    def forward(ctx, x, y):
        return x * 2 + y

    @staticmethod
    def jvp(ctx, x_t, y_t):
        return 2 * x_t + y_t if y_t is not None and y_t.abs().sum() else 3 * x_t


def test_gradcheck_meets_missing_and_batched_tangents() -> None:
    """Forward mode is checked with tangents of zeros, without, and over a batch of them."""
    x = torch.rand(2, dtype=torch.float64, requires_grad=True)
    options = {"check_forward_ad": True, "check_backward_ad": False}
    assert torch.autograd.gradcheck(
        lambda x, y: (x * y, y), (x, x.detach().clone().requires_grad_()),
        check_batched_forward_grad=True, **options)
    with pytest.raises(RuntimeError, match="Jacobian computed with forward mode|Mismatch in tang"):
        torch.autograd.gradcheck(_Wrong.apply, (x, x.detach().clone().requires_grad_()), **options)

    def draws(x):
        return x * torch.rand(2, dtype=torch.float64).clamp(1, 1)

    with pytest.raises(RuntimeError, match="do not yet support calling random operations"):
        torch.autograd.gradcheck(draws, (x,), check_batched_forward_grad=True, **options)


def _large(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=F64)


LABELS = torch.arange(300) % 129
KERNEL_RULES = {
    "mse": (F.mse_loss, (300, 129), (300, 129)),
    "huber, none": (lambda x, y: F.huber_loss(x, y, reduction="none"), (300, 129), (300, 129)),
    "cross entropy": (lambda x: F.cross_entropy(x, LABELS), (300, 129)),
    "cross entropy, ignored": (
        lambda x: F.cross_entropy(x, LABELS, ignore_index=3, reduction="sum"), (300, 129)),
    "cross entropy, each row": (
        lambda x: F.cross_entropy(x, LABELS, reduction="none"), (300, 129)),
    "softmax": (lambda x: x.softmax(1), (300, 129)),
    "log softmax": (lambda x: x.log_softmax(1), (300, 129)),
    "log softmax of columns": (lambda x: x.log_softmax(0), (300, 129)),
    "max pool": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 5, 60, 60)),
    "attention": (F.scaled_dot_product_attention, (3, 2, 65, 8), (3, 2, 70, 8), (3, 2, 70, 6)),
    "attention, causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (3, 2, 65, 8), (3, 2, 65, 8), (3, 2, 65, 8)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (129,), w, b), (300, 129), (129,), (129,)),
    "batch norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (6, 5, 40, 40), (5,), (5,)),
}


@pytest.mark.parametrize("name", KERNEL_RULES)
def test_rules_on_large_arrays_are_the_transposed_ones(name: str) -> None:
    """Where no derivative of the tangents is wanted, rules take fused passes; each subset of the
    inputs with tangents gives what a vjp, transposed, does."""
    f, *shapes = KERNEL_RULES[name]
    args, tangents = ([_large(*shape) for shape in shapes] for _ in range(2))
    for chosen in range(1, 2 ** len(shapes)):
        moved = [i for i in range(len(shapes)) if chosen >> i & 1]

        def part(*xs: torch.Tensor, moved: list[int] = moved) -> torch.Tensor:
            every = list(args)
            for i, x in zip(moved, xs, strict=True):
                every[i] = x
            return f(*every)

        xs, ts = (tuple(v[i] for i in moved) for v in (args, tangents))
        wanted = linearize(part, *xs)[1](*ts)
        assert torch.allclose(jvp(part, xs, ts)[1], wanted, rtol=1e-6, atol=1e-9)


def test_operators_without_a_derivative(torch):
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(NotImplementedError, match="Trying to use forward AD with igamma that"):
            torch.igamma(x, x)
        with pytest.raises(NotImplementedError, match="Trying to use forward AD with .*does not"):
            torch.floor_divide(x, x)
        assert forward_ad.unpack_dual(torch.igamma(torch.ones(2), torch.ones(2))).tangent is None


COMPOSITES = {
    "eigenvalues": (lambda x: torch.linalg.eigvalsh(x + x.T, UPLO="U"), (4, 4)),
    "statistics of groups": (
        lambda x: torch.native_group_norm(x, None, None, 2, 4, 3, 2, 0.1)[1:], (2, 4, 3)),
    "statistics of layers": (
        lambda x: torch.native_layer_norm(x, (4,), None, None, 0.1)[1:], (3, 4)),
    "no axes": (lambda x: torch.flip(x, ()) * 2, (3, 4)),
}


@pytest.mark.parametrize("name", COMPOSITES)
def test_composites_take_the_way_with_derivatives(name: str) -> None:
    """What a function leaves out where nothing requires gradients is there for tangents."""
    function, shape = COMPOSITES[name]
    torch.manual_seed(0)
    x = rand(*shape)
    with forward_ad.dual_level():
        y = function(forward_ad.make_dual(x, torch.ones_like(x)))
        parts = y if isinstance(y, tuple) else (y,)
        assert all(forward_ad.unpack_dual(part).tangent is not None for part in parts)
    assert torch.autograd.gradcheck(
        function, (x.requires_grad_(),), check_forward_ad=True, check_backward_ad=False)


def test_tangents_of_large_transposed_arrays(torch):
    x, t = torch.randn(70, 90), torch.randn(70, 90)
    for _ in range(3):  # a kernel for value and tangent is compiled meanwhile
        y, pushed = torch.func.jvp(lambda x: x.t() * x.t(), (x,), (t,))
        assert torch.allclose(y, (x * x).t()) and torch.allclose(pushed, 2 * (x * t).t())
        assert y.stride() == x.t().stride()


@pytest.mark.parametrize("dim", [1, (0, 1)])
def test_tangents_of_logsumexp(torch, dim):
    x, t = torch.randn(4, 5, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64)
    _, pushed = torch.func.jvp(lambda x: x.logsumexp(dim, keepdim=True), (x,), (t,))
    weights = (x - x.logsumexp(dim, keepdim=True)).exp()
    assert torch.allclose(pushed, (weights * t).sum(dim, keepdim=True))
    hessian = torch.func.hessian(lambda x: x.logsumexp(dim).sum())(x)
    expected = torch.func.jacrev(torch.func.jacrev(lambda x: x.logsumexp(dim).sum()))(x)
    assert torch.allclose(hessian, expected)


def test_fill_takes_its_value_by_keyword() -> None:
    x, value = torch.ones(2), torch.tensor(3.0)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones(2)) * 1
        dual.fill_(value=forward_ad.make_dual(value, torch.tensor(5.0)))
        assert dual.tolist() == [3.0, 3.0]
        assert forward_ad.unpack_dual(dual).tangent.tolist() == [5.0, 5.0]
        dual.fill_(value=4.0)
        assert forward_ad.unpack_dual(dual).tangent.tolist() == [0.0, 0.0]


def test_batches_of_tangents_are_put_at_positions() -> None:
    torch.manual_seed(0)
    x, v = torch.randn(4, 4).double(), torch.randn(3, 4).double()
    where = (torch.tensor([0, 2, 2]),)
    for accumulate in (False, True):
        if not accumulate:
            where = (torch.tensor([0, 2, 3]),)
        f = lambda x, v: (x * 2).index_put_(where, v, accumulate)  # noqa: B023, E731
        for argnums in (0, 1):
            torch.testing.assert_close(torch.func.jacfwd(f, argnums)(x, v),
                                       torch.func.jacrev(f, argnums)(x, v))


@pytest.mark.parametrize("name", ["amax", "amin", "aminmax", "var", "prod", "cumprod", "logsumexp"])
def test_reductions_of_a_number_along_its_axis(torch, name):
    options = {"correction": 0} if name == "var" else {"dim": 0}
    function = getattr(torch, name)
    x, t = torch.tensor(1.5), torch.tensor(2.0)
    value, tangent = torch.func.jvp(lambda x: function(x, **options), (x,), (t,))
    value = value if isinstance(value, torch.Tensor) else value[0]
    tangent = tangent if isinstance(tangent, torch.Tensor) else tangent[0]
    assert value.item() == (0.0 if name == "var" else 1.5)
    assert tangent.item() == (0.0 if name == "var" else 2.0)
