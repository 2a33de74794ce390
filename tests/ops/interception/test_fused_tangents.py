"""Pointwise operators on large arrays compute value and tangent in one kernel."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import flambeau as torch
from flambeau.func import jvp
from flambeau.nn import functional as F
from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.kernels.softmax_and_layer_norm import RowKernelBuilder
from flambeau.native.loop_ir.ir import ReduceOp, Type
from flambeau.native.target.eager_costs import CALLS_BEFORE_COMPILING
from flambeau.ops.core.operator import OPERATORS
from flambeau.ops.interception import fused_tangents

# elements: on the kernel, on it after many calls, and by the rule alone
LARGE, MEDIUM, SMALL = 40_000, 5_000, 64

FUNCTIONS = {
    "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "exp": torch.exp,
    "elu": F.elu, "leaky_relu": F.leaky_relu, "softplus": F.softplus, "mish": F.mish,
    "square": lambda x: x**2, "abs": torch.abs, "hardswish": F.hardswish, "log": torch.log1p,
    "clamp": lambda x: x.clamp(-0.5, 0.5), "scaled": lambda x: x * 2.5, "from_one": lambda x: 1 - x,
    "product": lambda x, y: x * y, "ratio": lambda x, y: x / (2 + y), "sum": lambda x, y: x + y,
    "power": lambda x, y: (1 + x) ** y, "difference": lambda x, y: torch.sub(x, y, alpha=3),
}


@pytest.fixture(autouse=True)
def formulas():
    """The formulas, empty before and after."""
    fused_tangents.FORMULAS.clear()
    fused_tangents._calls.clear()
    yield fused_tangents.FORMULAS
    fused_tangents.FORMULAS.clear()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_kernel_agrees_with_the_rule(name, formulas):
    f = FUNCTIONS[name]
    count = f.__code__.co_argcount if name in ("product", "ratio", "sum", "power", "difference") \
        else 1
    torch.manual_seed(0)
    primals = [torch.rand(LARGE, dtype=torch.float64) - 0.5 * (name != "log") for _ in range(count)]
    tangents = [torch.randn(LARGE, dtype=torch.float64) for _ in range(count)]
    for _ in range(3):  # counted, derived and compiled, used
        y, dy = jvp(f, tuple(primals), tuple(tangents))
    assert any(formulas.values())
    few = jvp(f, tuple(x[:SMALL] for x in primals), tuple(t[:SMALL] for t in tangents))
    torch.testing.assert_close((y[:SMALL], dy[:SMALL]), few, rtol=1e-12, atol=1e-12)


def test_medium_arrays_get_a_kernel_after_many_calls(formulas):
    x, t = torch.rand(MEDIUM, dtype=torch.float64), torch.randn(MEDIUM, dtype=torch.float64)
    first = jvp(F.gelu, (x,), (t,))
    for _ in range(CALLS_BEFORE_COMPILING - 2):
        jvp(F.gelu, (x,), (t,))
    assert not formulas
    for _ in range(2):
        last = jvp(F.gelu, (x,), (t,))
    assert len(formulas) == 1 and all(formulas.values())
    torch.testing.assert_close(last, first, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_small_arrays_get_the_formula_in_numpy(name, formulas):
    """After many calls. Shapes broadcast; the value is the operator's to the last bit."""
    f = FUNCTIONS[name]
    torch.manual_seed(0)
    primals = [torch.rand(3, 4) - 0.5 * (name != "log"), torch.rand(4), torch.rand(())]
    tangents = [torch.randn_like(p) for p in primals]
    two = name in ("product", "ratio", "sum", "power", "difference")
    for which in ((0, 1), (1, 0), (0, 2)) if two else ((0,), (2,)):
        args, ts = tuple(primals[i] for i in which), tuple(tangents[i] for i in which)
        for moved in (slice(0, 2), slice(0, 1), slice(1, 2)) if two else (slice(0, 1),):
            def run(*own, args=args, moved=moved):
                rest = list(args)
                rest[moved] = own
                return f(*rest)

            first = jvp(run, args[moved], ts[moved])
            for _ in range(CALLS_BEFORE_COMPILING + 1):
                y, dy = jvp(run, args[moved], ts[moved])
            assert torch.equal(y, f(*args))
            assert dy.shape == y.shape and dy.dtype == y.dtype and dy.stride() == y.stride()
            torch.testing.assert_close((y, dy), first)
    assert formulas and all(formulas.values())


def test_shapes_that_do_not_fit_raise_the_operators_error(formulas):
    x, y = torch.rand(3), torch.rand(3)
    for _ in range(CALLS_BEFORE_COMPILING + 1):
        jvp(torch.mul, (x, y), (x, y))
    assert all(formulas.values())
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        jvp(torch.mul, (x, torch.rand(4)), (x, torch.rand(4)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64])
def test_other_dtypes_have_no_formula(dtype, formulas):
    x = torch.rand(4).to(dtype)
    for _ in range(CALLS_BEFORE_COMPILING + 2):
        _, dy = jvp(torch.sigmoid, (x,), (x,))
    assert dy.dtype is dtype and not any(formulas.values())


@pytest.mark.parametrize("size", [3, LARGE])
@pytest.mark.parametrize("recorded", [False, True])
def test_results_do_not_share_tangents_with_inputs(size, recorded):
    """A write to the result would change the input's tangent, too."""
    forward_ad = torch.autograd.forward_ad
    x, t, w = torch.ones(size), torch.ones(size), torch.ones(size, requires_grad=recorded)
    functions = (lambda x: x + w, lambda x: w + x, lambda x: x - w, lambda x: torch.add(x, w),
                 lambda x: x.clone(), lambda x: torch.cat([x]), lambda x: x.expand(2, size) + w)
    for f in functions:
        for _ in range(3):
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(x, t)
                y = f(dual)
                y.mul_(5)
                assert torch.equal(forward_ad.unpack_dual(dual).tangent, torch.ones(size))
                assert (forward_ad.unpack_dual(y).tangent == 5).all()
        assert torch.equal(t, torch.ones(size))


def test_nan_and_infinities(formulas):
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0]).repeat(LARGE // 5)
    t = torch.arange(5.0).repeat(LARGE // 5)
    for f in (F.relu, F.gelu, torch.tanh, torch.exp):
        for _ in range(3):
            y, dy = jvp(f, (x,), (t,))
        few = jvp(f, (x[:5],), (t[:5],))
        torch.testing.assert_close((y[:5], dy[:5]), few, equal_nan=True)
    assert all(formulas.values())


def test_what_reads_values_has_no_formula(formulas):
    """Its rule is not a function of single elements: it sorts, or looks at the numbers."""
    x, t = torch.rand(LARGE), torch.rand(LARGE)

    def f(x):
        return torch.special.zeta(x + 1.5, torch.full_like(x, 2.0))

    for _ in range(3):
        with pytest.raises(NotImplementedError):
            jvp(f, (x,), (t,))
    assert not any(known for key, known in formulas.items() if "zeta" in key[0].name)


def test_nested_levels_and_gradients_take_the_rule():
    x, t = torch.rand(LARGE, dtype=torch.float64), torch.rand(LARGE, dtype=torch.float64)
    for _ in range(3):
        _, second = jvp(lambda x: jvp(torch.sin, (x,), (t,))[1], (x,), (t,))
    torch.testing.assert_close(second, -torch.sin(x) * t * t)
    x.requires_grad_()
    for _ in range(3):
        dy = jvp(torch.sin, (x,), (t,))[1]
    (g,) = torch.autograd.grad(dy.sum(), x)
    torch.testing.assert_close(g, -torch.sin(x.detach()) * t)


def test_other_layouts_take_the_rule():
    x = torch.rand(200, 200, dtype=torch.float64)
    t = torch.rand(200, 200, dtype=torch.float64)
    for _ in range(3):
        y, dy = jvp(torch.sin, (x.t(),), (t.t(),))
    torch.testing.assert_close(dy, torch.cos(x.t()) * t.t())
    assert y.stride() == dy.stride() == (1, 200)


def test_writes_to_the_value_are_seen():
    forward_ad = torch.autograd.forward_ad
    x, t = torch.rand(LARGE), torch.ones(LARGE)
    for _ in range(3):
        with forward_ad.dual_level():
            y = torch.sin(forward_ad.make_dual(x, t))
            y.mul_(2)
            value, tangent = forward_ad.unpack_dual(y)
            torch.testing.assert_close(value, 2 * torch.sin(x))
            torch.testing.assert_close(tangent, 2 * torch.cos(x))
            assert value._version == y._version == 1


@pytest.mark.parametrize(("size", "settings"), [
    ((8, 32, 28, 28), {"kernel_size": 2}),
    ((4, 16, 29, 31), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((4, 16, 28, 30), {"kernel_size": 3, "stride": 1, "padding": 1}),
    ((4, 16, 28, 30), {"kernel_size": 3, "stride": 3, "dilation": 2, "padding": 2}),
    ((4, 16, 29, 30), {"kernel_size": 2, "ceil_mode": True}),
    ((4, 8, 40, 40), {"kernel_size": (2, 3), "stride": (1, 2)}),
    ((4, 8, 4000), {"kernel_size": 5, "stride": 3}),
])
def test_max_pooling_takes_the_tangent_where_the_maximum_is(size, settings):
    """Also of ties, of which the first one counts: zeros behind a relu, -inf."""
    torch.manual_seed(0)
    pool = F.max_pool2d if len(size) == 4 else F.max_pool1d
    t = torch.randn(size)
    for x in (torch.randn(size), torch.randn(size).relu(), torch.full(size, -float("inf"))):
        for _ in range(3):
            y, dy = jvp(lambda x: pool(x, **settings), (x,), (t,))
        values, where = pool(x.double(), return_indices=True, **settings)
        n = len(size) - 2
        taken = t.flatten(-n).gather(-1, where.flatten(-n)).reshape(where.shape)
        assert torch.equal(y, values.float())
        assert torch.equal(dy, taken)


def test_max_pooling_has_one_kernel(monkeypatch):
    calls = []
    rule = OPERATORS["_max_pool2d"].value_and_jvp
    monkeypatch.setattr(OPERATORS["_max_pool2d"], "value_and_jvp",
                        lambda input_t, input, window: calls.append(
                            rule(input_t, input, window)) or calls[-1])
    x = torch.randn(8, 32, 28, 28)
    for _ in range(3):
        jvp(lambda x: F.max_pool2d(x, 2), (x,), (x,))
    assert calls[-1] is not None


@pytest.mark.parametrize("which", ["x", "xw", "xb", "xwb", "w", "b", "wb"])
@pytest.mark.parametrize("has_weight", [True, False])
def test_layer_norm_has_one_kernel_for_its_tangent(which, has_weight):
    torch.manual_seed(0)
    double = torch.float64
    values = {"x": torch.randn(64, 512, dtype=double), "w": torch.randn(512, dtype=double),
              "b": torch.randn(512, dtype=double)}
    if not has_weight and "w" in which:
        pytest.skip("no weight has no tangent")
    primals = tuple(values[k] for k in which)
    tangents = tuple(torch.randn_like(p) for p in primals)

    def parts(args):
        x, w, b = (dict(zip(which, args, strict=True)).get(k, values[k]) for k in "xwb")
        return x, w if has_weight else None, b

    def layer(*args):
        x, w, b = parts(args)
        return F.layer_norm(x, (512,), w, b)

    def by_hand(*args):
        x, w, b = parts(args)
        apart = x - x.mean(-1, keepdim=True)
        y = apart / ((apart * apart).mean(-1, keepdim=True) + 1e-5).sqrt()
        return (y if w is None else y * w) + b

    for _ in range(3):
        result = jvp(layer, primals, tangents)
    torch.testing.assert_close(result, jvp(by_hand, primals, tangents))


def _served(monkeypatch, name):
    """The calls of an operator's rule for result and tangent: whether each was served."""
    served, rule = [], OPERATORS[name].value_and_jvp

    @functools.wraps(rule)
    def watched(*args):
        result = rule(*args)
        served.append(result is not None)
        return result

    monkeypatch.setattr(OPERATORS[name], "value_and_jvp", watched)
    return served


@pytest.mark.parametrize("which", ["x", "xw", "xb", "xwb"])
@pytest.mark.parametrize("has_parameters", [True, False])
@pytest.mark.parametrize("layer", ["layer_norm", "batch_norm", "group_norm"])
def test_normalizations_have_one_way_for_value_and_tangent(
    monkeypatch, layer, which, has_parameters
):
    """As by hand, with the statistics that backward and running averages read."""
    torch.manual_seed(0)
    served = _served(monkeypatch, f"_{layer}")
    shape, size = ((256, 512), 512) if layer == "layer_norm" else ((4, 8, 40, 40), 8)
    axes = {"layer_norm": (1,), "batch_norm": (0, 2, 3), "group_norm": (2,)}[layer]
    x = torch.randn(shape, dtype=torch.float64) + 3
    values = {"x": x, "w": torch.randn(size).double(), "b": torch.randn(size).double()}
    if not has_parameters and which != "x":
        pytest.skip("absent parameters have no tangent")
    primals = tuple(values[k] for k in which)
    tangents = tuple(torch.randn_like(p) for p in primals)
    running = torch.zeros(8).double(), torch.ones(8).double()

    def parts(args):
        known = values | dict(zip(which, args, strict=True))
        return known["x"], *(known[k] if has_parameters else None for k in "wb")

    def layered(*args):
        x, w, b = parts(args)
        if layer == "layer_norm":
            return F.layer_norm(x, (512,), w, b)
        if layer == "group_norm":
            return F.group_norm(x, 2, w, b)
        return F.batch_norm(x, *(v.clone() for v in running), w, b, True)

    def by_hand(*args):
        x, w, b = (v if v is None or v.dim() > 1 or layer == "layer_norm" else v[:, None, None]
                   for v in parts(args))
        rows = x.reshape(4, 2, -1) if layer == "group_norm" else x
        apart = rows - rows.mean(axes, keepdim=True)
        y = (apart / ((apart * apart).mean(axes, keepdim=True) + 1e-5).sqrt()).reshape(x.shape)
        return (y if w is None else y * w) + (0 if b is None else b)

    for _ in range(4):
        result = jvp(layered, primals, tangents)
    torch.testing.assert_close(result, jvp(by_hand, primals, tangents))
    assert served[-1]


def test_batch_norm_with_tangents_moves_the_running_statistics():
    torch.manual_seed(0)
    x = torch.randn(8, 4, 40, 40)
    results = []
    for t in (None, torch.randn_like(x)):
        mean, var = torch.zeros(4), torch.ones(4)
        for _ in range(4):
            if t is None:
                F.batch_norm(x, mean, var, training=True)
            else:
                jvp(lambda x, m=mean, v=var: F.batch_norm(x, m, v, training=True), (x,), (t,))
        results.append((mean, var))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("formula", [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / (3 + b),
    lambda a, b: -a, lambda a, b: np.sqrt(2 + a), lambda a, b: np.exp(a * b),
    lambda a, b: np.log(3 + a), lambda a, b: 2 - b * 3, lambda a, b: a * a])
def test_kernels_push_tangents_through_their_formulas(formula):
    """By difference quotients, of sums along rows."""
    r = RowKernelBuilder(Type.F64, tangents=("a", "b", "y"))
    value = formula(r.matrix("a"), r.matrix("b"))
    r.keep(r.vector("y"), r.fold(ReduceOp.SUM, value))
    kernel = compile_kernel(r.kernel("formula"))
    a, a_t, b, b_t = np.random.default_rng(0).uniform(-1, 1, (4, 3, 20))
    y, y_t = np.empty(3), np.empty(3)
    kernel.run([a, a_t, b, b_t, y, y_t], (3, 20))
    step = 1e-6
    quotient = (formula(a + step * a_t, b + step * b_t)
                - formula(a - step * a_t, b - step * b_t)).sum(1) / (2 * step)
    np.testing.assert_allclose(y, formula(a, b).sum(1), rtol=1e-12)
    np.testing.assert_allclose(y_t, quotient, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0,)], ids=str)
def test_empty_rows(shape):
    x, n = torch.ones(shape), shape[-1:]
    y, dy = jvp(lambda x: F.layer_norm(x, n, torch.ones(n), torch.ones(n)), (x,), (x,))
    assert y.shape == dy.shape == shape


@pytest.mark.parametrize("shape", [(6, 5), (3, 5, 4, 4), (64, 5, 20, 20)])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_by_given_statistics_has_one_way_for_value_and_tangent(
    monkeypatch, shape, affine
):
    torch.manual_seed(0)
    served = _served(monkeypatch, "_batch_norm_running")
    x, t = torch.randn(shape).double(), torch.randn(shape).double()
    mean, var, w, b = torch.randn(5).double(), torch.rand(5).double(), *torch.randn(2, 5).double()
    w, b = (w, b) if affine else (None, None)
    y, dy = jvp(lambda x: F.batch_norm(x, mean, var, w, b), (x,), (t,))
    assert served == [True]
    factor = (var + 1e-5).rsqrt() * (1 if w is None else w)
    factor = factor.reshape(1, 5, *[1] * (len(shape) - 2))
    torch.testing.assert_close((y, dy), (F.batch_norm(x, mean, var, w, b), t * factor))


@pytest.mark.parametrize("which", ["x", "w", "b", "xwb"])
@pytest.mark.parametrize("has_parameters", [True, False])
def test_recorded_tangents_of_layer_norm_have_derivatives(which, has_parameters):
    """One operator records them; its derivatives are those of the rule's operators."""
    if not has_parameters and which != "x":
        pytest.skip("absent parameters have no tangent")
    torch.manual_seed(0)
    x, w, b = torch.randn(3, 2, 5).double(), torch.randn(2, 5).double(), torch.randn(2, 5).double()
    leaves = [v.requires_grad_() for v in ((x, w, b) if has_parameters else (x,))]
    chosen = ["xwb".index(k) for k in which]
    tangents = [torch.randn_like(leaves[i]).requires_grad_() for i in chosen]

    def push(*values):
        primals, ts = list(values[: len(leaves)]), values[len(leaves) :]

        def layer(*moved):
            own = list(primals)
            for i, v in zip(chosen, moved, strict=True):
                own[i] = v
            return F.layer_norm(own[0], (2, 5), *own[1:])

        return jvp(layer, tuple(primals[i] for i in chosen), ts)[1]

    assert "LayerNormTangent" in type(push(*leaves, *tangents).grad_fn).__name__
    assert torch.autograd.gradcheck(push, (*leaves, *tangents), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(push, (*leaves, *tangents))
