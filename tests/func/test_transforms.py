"""torch.func: transforms nest, take trees, and keep a history only where it leads outside."""

from __future__ import annotations

import importlib

import pytest


def close(torch, actual, wanted):
    assert torch.allclose(actual, torch.as_tensor(wanted, dtype=actual.dtype)), (actual, wanted)


def test_grad_nests(torch):
    f = torch.func
    x = torch.tensor(2.0)
    close(torch, f.grad(lambda t: t**3)(x), 12.0)
    close(torch, f.grad(f.grad(lambda t: t**3))(x), 12.0)
    close(torch, f.grad(f.grad(f.grad(lambda t: t**4)))(x), 48.0)
    assert not f.grad(lambda t: t**3)(x).requires_grad


def test_grad_of_several_arguments_and_trees(torch):
    def loss(weights, x):
        return ((x @ weights["w"] + weights["b"]) ** 2).sum(), x.sum()

    weights = {"w": torch.ones(3), "b": torch.zeros(())}
    x = torch.ones(2, 3)
    actual, total = torch.func.grad(loss, has_aux=True)(weights, x)
    close(torch, actual["w"], [12.0, 12.0, 12.0])
    close(torch, actual["b"], 12.0)
    close(torch, total, 6.0)
    (first, second), (value, _) = torch.func.grad_and_value(loss, (0, 1), has_aux=True)(weights, x)
    assert set(first) == {"w", "b"}
    assert second.shape == (2, 3)
    close(torch, value, 18.0)


def test_grad_leaves_outside_histories(torch):
    w = torch.tensor(3.0, requires_grad=True)
    actual = torch.func.grad(lambda t: w * t**2)(torch.tensor(2.0))
    actual.backward()
    close(torch, w.grad, 4.0)
    x = torch.tensor(2.0, requires_grad=True)
    torch.func.grad(lambda t: t**3)(x).backward()
    close(torch, x.grad, 12.0)


def test_grad_under_no_grad(torch):
    with torch.no_grad():
        close(torch, torch.func.grad(lambda t: t**2)(torch.tensor(2.0)), 4.0)


def test_refusals(torch):
    grad = torch.func.grad
    with pytest.raises(RuntimeError, match="scalar Tensor, got tensor with 1 dims"):
        grad(lambda t: t)(torch.ones(2))
    with pytest.raises(RuntimeError, match="only 1 positional inputs"):
        grad(lambda t: t, 1)(torch.ones(()))
    with pytest.raises(RuntimeError, match="should be a tuple"):
        grad(lambda t: t, has_aux=True)(torch.ones(()))


def test_vjp_and_jvp_agree_with_the_jacobian(torch):
    f = torch.func
    torch.manual_seed(0)
    w, x, v, u = torch.randn(3, 2), torch.randn(2), torch.randn(2), torch.randn(3)

    def g(t):
        return torch.tanh(w @ t)

    matrix = f.jacrev(g)(x)
    assert matrix.shape == (3, 2)
    close(torch, f.jacfwd(g)(x), matrix)
    y, pull = f.vjp(g, x)
    close(torch, y, g(x))
    close(torch, pull(u)[0], u @ matrix)
    close(torch, pull(2 * u)[0], 2 * u @ matrix)
    y, product = f.jvp(g, (x,), (v,))
    close(torch, product, matrix @ v)
    y, push = f.linearize(g, x)
    close(torch, push(v), matrix @ v)


def test_jacobians_nest_outputs_over_arguments(torch):
    def g(a, b):
        return a * b.sum(), b

    actual = torch.func.jacrev(g, (0, 1))(torch.ones(2), torch.ones(3))
    assert [[tuple(t.shape) for t in row] for row in actual] == [[(2, 2), (2, 3)], [(3, 2), (3, 3)]]


def test_hessian(torch):
    actual = torch.func.hessian(lambda t: t[0] ** 2 * t[1])(torch.tensor([1.0, 2.0]))
    close(torch, actual, [[4.0, 2.0], [2.0, 0.0]])


def test_vmap_over_axes_and_trees(torch):
    a, b = torch.randn(4, 3), torch.randn(3, 4)
    close(torch, torch.vmap(torch.dot, in_dims=(0, 1))(a, b), (a * b.t()).sum(1))
    close(torch, torch.vmap(lambda t: t * 2, out_dims=1)(a), (a * 2).t())
    actual = torch.vmap(lambda p, q: {"s": p["x"] + q}, in_dims=({"x": 0}, None))({"x": a}, b[:, 0])
    close(torch, actual["s"], a + b[:, 0])


def test_vmap_of_grad_is_a_gradient_for_each_example(torch):
    w = torch.tensor([1.0, -2.0])
    x, y = torch.randn(5, 2), torch.randn(5)

    def loss(w, x, y):
        return (x @ w - y) ** 2

    actual = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(w, x, y)
    close(torch, actual, 2 * (x @ w - y)[:, None] * x)


def test_vmap_records(torch):
    x = torch.ones(3, requires_grad=True)
    torch.vmap(lambda t: t**2)(x).sum().backward()
    close(torch, x.grad, [2.0, 2.0, 2.0])


def test_vmap_and_random_numbers(torch):
    x = torch.zeros(3)
    with pytest.raises(RuntimeError, match="randomness"):
        torch.vmap(lambda t: t + torch.rand(()))(x)
    same = torch.vmap(lambda t: t + torch.rand(()), randomness="same")(x)
    assert len(set(same.tolist())) == 1
    different = torch.vmap(lambda t: t + torch.rand(()), randomness="different")(x)
    assert len(set(different.tolist())) == 3


def test_vmap_refusals(torch):
    with pytest.raises(ValueError, match="same size in the mapped"):
        torch.vmap(torch.add)(torch.ones(2), torch.ones(3))
    with pytest.raises(ValueError, match="cannot vmap over non-Tensor"):
        torch.vmap(torch.add)(torch.ones(2), 1)
    with pytest.raises(ValueError, match="in_dim"):
        torch.vmap(torch.sin, 3)(torch.ones(2))
    with pytest.raises(ValueError, match="must only return Tensors"):
        torch.vmap(lambda t: 3)(torch.ones(2))


def test_vmap_refuses_to_write_into_what_all_examples_share(torch):
    shared, batch = torch.zeros(3), torch.ones(2, 3)
    refused = "vmap: inplace arithmetic.*is not possible|doesn't match the broadcast shape"
    with pytest.raises(RuntimeError, match=refused):
        torch.vmap(lambda a, b: a.add_(b), in_dims=(None, 0))(shared, batch)
    assert torch.vmap(lambda b: b.add_(1))(batch).tolist() == batch.tolist() == [[2.0] * 3] * 2


def test_transforms_compute_without_grad_and_what_they_give_has_no_history(torch):
    x = torch.tensor(1.5, requires_grad=True)
    with torch.no_grad():
        g = torch.func.grad(torch.sin)(x)
        y, pull = torch.func.vjp(torch.sin, x)
    assert g.item() == pytest.approx(x.cos().item())
    assert not g.requires_grad
    assert not y.requires_grad
    y, pull = torch.func.vjp(torch.sin, x)
    with torch.no_grad():
        (g,) = pull(torch.tensor(1.0))
    assert y.requires_grad
    assert not g.requires_grad


def test_an_inner_gradient_without_grad_is_a_constant_to_the_outer_one(torch):
    def shifted(x):
        with torch.no_grad():
            g, value = torch.func.grad_and_value(lambda x: x**3)(x)
        return x**3 - value - g

    x = torch.tensor(1.5, requires_grad=True)
    g = torch.func.grad(shifted)(x)
    assert g.item() == pytest.approx(3 * 1.5**2)
    (second,) = torch.autograd.grad(g, x)
    assert second.item() == pytest.approx(6 * 1.5)


def test_jvp_computes_where_forward_mode_is_off_around_it(torch):
    forward_ad = importlib.import_module(f"{torch.__name__}.autograd.forward_ad")
    with forward_ad._set_fwd_grad_enabled(False):
        _, t = torch.func.jvp(torch.sin, (torch.zeros(2),), (torch.ones(2),))
    assert t.tolist() == [1.0, 1.0]


def _refused(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


def test_what_transforms_say_of_arguments_and_results(torch):
    func, x = torch.func, torch.ones(3)
    _refused(lambda: func.vjp(lambda _: None, x), r"vjp\(f, \*primals\): .* non-empty output")
    _refused(lambda: func.jacrev(lambda _: 1)(x), r"vjp.*to return only tensors, got unsupported")
    _refused(lambda: func.jacrev(torch.sin, argnums=0.0)(x), r"must be int or Tuple\[int")
    _refused(lambda: func.grad(torch.mul, argnums=("0",))(x, x), "argnum must be int")
    _refused(lambda: func.jvp(torch.sin, (x,), (x, x)), "same python structure")
    _refused(lambda: func.jvp(torch.sin, (), ()), "at least one Tensor")
    _refused(lambda: func.jvp(torch.sin, (1.0,), (x,)), "only contain Tensors")
    _refused(lambda: func.vjp(lambda a: (a, "x"), x, has_aux=True), "unsupported type")
    _refused(lambda: func.jacfwd(torch.sin)(x * 1j), "jacfwd: Expected all inputs to be real")
    _, pull = func.vjp(lambda a: (a, (a, a)), x)
    _refused(lambda: pull((x, x, x)), "Expected pytree structure")


def test_models_are_stacked_that_agree_on_gradients(torch):
    nets = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]
    nets[1].bias.requires_grad_(False)
    _refused(lambda: torch.func.stack_module_state(nets),
             "Expected bias from each model to have the same .requires_grad")


def test_aux_of_a_jacobian_within_a_forward_jacobian_is_a_tensor(torch):
    def f(x):
        return x.sin(), (x * 2, x)

    x = torch.arange(3.0)
    nested = torch.func.jacfwd(torch.func.jacrev(f, has_aux=True), has_aux=True)
    _, aux = nested(x)
    assert aux[0].tolist() == [0, 2, 4]
    assert aux[1].tolist() == [0, 1, 2]
    batched = torch.vmap(lambda x: nested(x)[1][0])(x[:, None])
    assert batched.tolist() == [[0], [2], [4]]


def test_tensors_within_a_transform_print_its_level(torch):
    texts = []

    def show(x):
        texts.append(" ".join(repr(x * 1).split()))
        return x.sum()

    x = torch.arange(2.0)
    torch.func.grad(show)(x)
    torch.func.grad(torch.func.grad(show))(torch.tensor(1.0))
    torch.vmap(torch.func.grad(show))(x)
    torch.func.grad(lambda x: torch.vmap(show)(x).sum())(x)
    assert texts == [
        "GradTrackingTensor(lvl=1, value= tensor([0., 1.]) )",
        "GradTrackingTensor(lvl=2, value= GradTrackingTensor(lvl=1, value= tensor(1.) ) )",
        "GradTrackingTensor(lvl=2, value= BatchedTensor(lvl=1, bdim=0, value= tensor([0., 1.]) ) )",
        "BatchedTensor(lvl=2, bdim=0, value= GradTrackingTensor(lvl=1, value= tensor([0., 1.]) ) )",
    ]


def test_a_functions_node_within_a_transform_is_of_a_generated_class(torch):
    class Copy(torch.autograd.Function):
        forward = staticmethod(lambda x: x.clone())
        setup_context = staticmethod(lambda context, inputs, output: None)
        backward = staticmethod(lambda context, g: g)

    names = []

    def f(x):
        y = Copy.apply(x)
        names.append(type(y.grad_fn).__name__)
        return y

    torch.func.grad(f)(torch.tensor(1.0))
    f(torch.tensor(1.0, requires_grad=True))
    assert names == ["CopyGeneratedBackward", "CopyBackward"]
