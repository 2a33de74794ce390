"""The engine: order, sums, freeing, orders of derivatives, versions, threads."""

from __future__ import annotations

import gc
import sys
import threading
import time
import warnings
import weakref

import numpy
import pytest


def leaf(torch, *values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


# ---------------------------------------------------------------------------------- large graphs


def test_a_million_nodes():
    import flambeau

    x = flambeau.ones(1, requires_grad=True)
    y = x
    for _ in range(1_000_000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1
    limit = sys.getrecursionlimit()
    del y
    gc.collect()
    assert sys.getrecursionlimit() == limit


def test_a_long_chain_is_freed_without_backward(torch):
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(200_000):
        y = y * 1.0
    del y
    gc.collect()


def test_a_wide_graph(torch):
    leaves = [torch.full((), float(i), requires_grad=True) for i in range(5_000)]
    torch.stack([v * v for v in leaves]).sum().backward()
    assert all(v.grad.item() == 2.0 * i for i, v in enumerate(leaves))


def test_shared_nodes_run_once(torch):
    calls = []

    class Count(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + x

        @staticmethod
        def backward(ctx, g):
            calls.append(1)
            return g * 2

    x = leaf(torch, 1.0)
    y = x
    for _ in range(40):  # 2 ** 40 paths
        y = Count.apply(y)
        y = y * 0.25 + y * 0.25
    y.sum().backward()
    assert len(calls) == 40
    assert x.grad.item() == 1


# ----------------------------------------------------------------------------- sums and freeing


def test_retain_graph(torch):
    x = leaf(torch, 2.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_what_was_saved_is_freed(torch):
    x = leaf(torch, 2.0)
    power = (x * 3).exp()
    array = weakref.ref(power)
    y = power * power
    del power
    assert array() is not None
    z = y.sum()
    z.backward()
    gc.collect()
    assert array() is None
    assert z.grad_fn is not None


def test_several_roots(torch):
    x = leaf(torch, 2.0)
    torch.autograd.backward([x * 3, x * x], [torch.ones(1), torch.full((1,), 10.0)])
    assert x.grad.item() == 43


def test_a_root_that_is_a_leaf(torch):
    x = leaf(torch, 2.0)
    x.backward(torch.full((1,), 5.0, dtype=torch.float64))
    assert x.grad.item() == 5


def test_a_root_inside_the_graph_of_another(torch):
    x = leaf(torch, 2.0)
    y = x * x
    z = y * 3
    torch.autograd.backward([z, y], [torch.ones(1), torch.ones(1)])
    assert x.grad.item() == 16


def test_inputs(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 3.0)
    c = a * b
    (c * a).backward(inputs=[a], retain_graph=True)
    assert a.grad.item() == 12
    assert b.grad is None
    (c * a).backward(inputs=[c])
    assert c.grad.item() == 2
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (a * b).backward(inputs=[])


def test_grad_of_something_between(torch):
    x = leaf(torch, 2.0)
    y = x * x
    z = y.exp() + x
    gy, gx = torch.autograd.grad(z, (y, x))
    assert torch.allclose(gy, y.exp())
    assert torch.allclose(gx, y.exp() * 4 + 1)
    assert x.grad is None


def test_unused_inputs(torch):
    x, unused = leaf(torch, 2.0), leaf(torch, 1.0)
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(x * 2, unused)
    assert torch.autograd.grad(x * 2, (x, unused), allow_unused=True)[1] is None
    gradients = torch.autograd.grad(x * 2, (x, unused), materialize_grads=True)
    assert gradients[1].tolist() == [0.0]


def test_branches_that_are_not_needed_do_not_run(torch):
    class Never(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise AssertionError("ran")

    a, b = leaf(torch, 2.0), leaf(torch, 3.0)
    assert torch.autograd.grad(a * 5 + Never.apply(b), a)[0].item() == 5


def test_gradients_do_not_share_memory(torch):
    a, b = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    (a + b).sum().backward()
    assert a.grad.data_ptr() != b.grad.data_ptr()
    seen = []
    c = leaf(torch, 1.0)
    y = c + 1
    y.register_hook(seen.append)
    y.backward(torch.full((1,), 2.0, dtype=torch.float64), retain_graph=True)
    first = seen[0].clone()
    y.backward(torch.full((1,), 2.0, dtype=torch.float64))
    assert seen[0].equal(first)
    assert c.grad.item() == 4
    g = torch.ones(2, dtype=torch.float64)
    d = leaf(torch, 1.0, 2.0)
    d.backward(g)
    d.grad.add_(1)
    assert g.tolist() == [1.0, 1.0]


def test_the_order_is_newest_first(torch):
    seen = []

    def watched(y, name):
        y.register_hook(lambda g: seen.append(name))
        return y

    x = leaf(torch, 1.0)
    a = watched(x * 2, "a")
    b = watched(x * 3, "b")
    c = watched(a * 1, "c")
    (b + c).sum().backward()
    assert seen.index("c") < seen.index("a")
    assert set(seen) == {"a", "b", "c"}


# -------------------------------------------------------------------------- higher derivatives


@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_to_the_third_order(torch, order):
    x = leaf(torch, 0.7, -0.4)
    y = (x**4 + x.sin() * x.exp()).sum()
    expected = {
        1: lambda v: 4 * v**3 + v.exp() * (v.sin() + v.cos()),
        2: lambda v: 12 * v**2 + 2 * v.exp() * v.cos(),
        3: lambda v: 24 * v + 2 * v.exp() * (v.cos() - v.sin()),
    }[order](x.detach())
    for _ in range(order):
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        y = g.sum()
    assert torch.allclose(g, expected)


def test_mixed_second_derivative(torch):
    x, y = leaf(torch, 0.5), leaf(torch, 2.0)
    (gx,) = torch.autograd.grad((x * y).exp().sum(), x, create_graph=True)
    (gxy,) = torch.autograd.grad(gx, y)
    assert gxy.item() == pytest.approx((1 + 1.0) * 2.718281828459045)


def test_create_graph_through_backward(torch):
    x = leaf(torch, 3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of the cycle
        (x**3).sum().backward(create_graph=True)
    g = x.grad
    assert g.requires_grad
    x.grad = None
    g.sum().backward()
    assert x.grad.item() == 18


def test_penalty_on_a_gradient(torch):
    w, x = leaf(torch, 1.0, 2.0), torch.tensor([3.0, 4.0], dtype=torch.float64)
    (g,) = torch.autograd.grad(((w * x).sum()) ** 2, w, create_graph=True)
    (g**2).sum().backward()
    # g = 2 (w.x) x, |g|^2 = 4 (w.x)^2 |x|^2, its gradient 8 (w.x) |x|^2 x
    assert torch.allclose(w.grad, 8 * 11 * 25 * x)


# --------------------------------------------------------------------- versions, writes in place


def test_stale_input_names_what_happened(torch):
    x = leaf(torch, 1.0, 2.0)
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
        z.sum().backward()
    assert "is at version 1; expected version 0" in str(error.value)
    assert "[2]" in str(error.value)


def test_stale_input_names_the_line():
    import flambeau

    y = flambeau.ones(2, requires_grad=True) * 1
    z = y * y
    y.add_(1)
    line = sys._getframe().f_lineno - 1
    with pytest.raises(RuntimeError, match=rf"test_engine\.py:{line}"):
        z.sum().backward()


def test_stale_output(torch):
    y = leaf(torch, 1.0).exp()
    y.zero_()
    with pytest.raises(RuntimeError, match="output 0 of Exp"):
        y.sum().backward()


def test_write_where_nothing_is_stale(torch):
    x = leaf(torch, 1.0)
    y = x + 1
    y.mul_(3)
    y.backward()
    assert x.grad.item() == 3


def test_write_through_a_view_makes_the_base_stale(torch):
    x = leaf(torch, 1.0, 2.0)
    y = x * 1
    z = y * y
    y[0].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_view_made_before_a_write_to_its_base(torch):
    x = leaf(torch, 1.0, 2.0, 3.0)
    y = x * 2
    v = y[1:]
    y.mul_(10)
    assert v.tolist() == [40.0, 60.0]
    v.sum().backward()
    assert x.grad.tolist() == [0.0, 20.0, 20.0]


@pytest.mark.parametrize("name", ["relu", "mul", "softmax", "linear", "layer_norm", "addmm"])
def test_operators_on_a_view_made_before_a_write_to_its_base(torch, name):
    F = torch.nn.functional
    operators = {
        "relu": lambda x: x.relu(), "mul": lambda x: x * x, "softmax": lambda x: x.softmax(0),
        "linear": lambda x: F.linear(x, torch.ones(3, 2)),
        "layer_norm": lambda x: F.layer_norm(x, (2,)),
        "addmm": lambda x: torch.addmm(torch.ones(2, 2), x, torch.ones(2, 2)),
    }
    w = torch.tensor([0.5, -1.0, 2.0, 3.0], requires_grad=True)
    base = torch.zeros(4)
    v = base.view(2, 2)
    assert not operators[name](v).requires_grad
    base.mul_(0).add_(w)
    y = operators[name](v)
    assert y.requires_grad
    (gradient,) = torch.autograd.grad((y * y).sum(), w)
    y = operators[name](w.view(2, 2))
    (wanted,) = torch.autograd.grad((y * y).sum(), w)
    assert torch.allclose(gradient, wanted)


def test_chain_of_views_and_writes(torch):
    x = leaf(torch, 1.0, 2.0, 3.0, 4.0)
    y = x * 1
    square = y.view(2, 2)
    square[0].mul_(5)
    square.t()[1].add_(y[0])
    y[2:] *= y[:2].detach().clone()
    (y * y).sum().backward()
    a, b, c, d = x.detach().tolist()
    p, q, r, s = 5 * a, 5 * b + 5 * a, c, d + 5 * a
    r2, s2 = r * p, s * q
    expected = [
        2 * p * 5 + 2 * q * 5 + 2 * s2 * q * 5, 2 * q * 5, 2 * r2 * p, 2 * s2 * q,
    ]
    assert y.tolist() == [p, q, r2, s2]
    assert x.grad.tolist() == pytest.approx(expected)


def test_one_of_many_views_is_not_written(torch):
    x = leaf(torch, 1.0, 2.0)
    y = x * 1
    first, _ = y.unbind(0)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        first.mul_(2)


def test_a_view_of_one_of_many_views_is_not_written(torch):
    first, _ = (leaf(torch, 1.0, 2.0) * 1).view(2).unbind(0)
    with pytest.raises(RuntimeError, match="returns multiple views"):
        first.view(1).mul_(2)


def test_pieces_of_unsafe_splits_are_written(torch):
    for split in (lambda x: x.unsafe_split(1), lambda x: x.unsafe_chunk(2),
                  lambda x: x.unsafe_split_with_sizes((1, 1))):
        x = leaf(torch, 2.0, 3.0)
        first, second = split(x * 1)
        first.mul_(second)
        first.sum().backward()
        assert x.grad.tolist() == [3.0, 2.0]


def test_a_view_made_without_grad_is_not_written_with_it(torch):
    x = leaf(torch, 1.0, 2.0) * 1
    with torch.no_grad():
        y = x.view(2, 1)
        y.mul_(2)
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being"):
        y.add_(1)
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being"):
        y.t_()
    with torch.no_grad():
        y = torch.zeros(2).view(2)
    z = y.requires_grad_().view(2)
    with pytest.raises(RuntimeError, match="a view of a view which was created in no_grad mode"):
        z.mul_(2)


def test_leaf_that_becomes_part_of_a_graph(torch):
    x, target = leaf(torch, 3.0), torch.zeros(2, dtype=torch.float64)
    target[1] = x[0] * 2
    assert target.requires_grad
    assert not target.is_leaf
    target.sum().backward()
    assert x.grad.item() == 2


# ------------------------------------------------------------------------------------- anomalies


def test_anomaly_mode_names_the_forward(torch):
    x = leaf(torch, -1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly():
            y = x.sqrt()
            with pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values"):
                y.backward()
    assert any("test_engine.py" in str(w.message) for w in caught)


def test_anomaly_mode_is_left(torch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            assert torch.is_anomaly_enabled()
    assert not torch.is_anomaly_enabled()
    with torch.autograd.set_detect_anomaly(True):
        assert torch.is_anomaly_enabled()
    assert not torch.is_anomaly_enabled()
    leaf(torch, -1.0).sqrt().backward()


# --------------------------------------------------------------------------------------- threads


def _in_threads(count, work):
    errors = []

    def guarded(i):
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[0]


def test_threads_with_graphs_of_their_own(torch):
    results = {}

    def work(i):
        x = torch.full((100,), float(i), requires_grad=True)
        for _ in range(30):
            ((x * x).exp() * 1e-30).sum().backward()
            x.grad = None
        (x * x).sum().backward()
        results[i] = x.grad[0].item()

    _in_threads(4, work)
    assert results == {i: 2.0 * i for i in range(4)}


def test_threads_that_share_leaves(torch):
    w = torch.zeros(20_000, requires_grad=True)
    _in_threads(4, lambda i: [(w * (i + 1)).sum().backward() for _ in range(25)])
    assert (w.grad == 250).all()


def test_grad_mode_of_a_backward_is_its_threads_own(torch):
    entered, may_go = threading.Event(), threading.Event()

    class Wait(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            entered.set()
            may_go.wait(10)
            return g

    x = leaf(torch, 1.0)
    thread = threading.Thread(target=Wait.apply(x).backward)
    thread.start()
    assert entered.wait(10)
    assert torch.is_grad_enabled()
    assert (x * 2).requires_grad
    may_go.set()
    thread.join()
    assert x.grad.item() == 1


def test_backward_is_quick_on_long_chains():
    import flambeau

    def seconds(count):
        y = flambeau.ones(1, requires_grad=True)
        for _ in range(count):
            y = y + 1
        start = time.process_time()
        y.backward()
        return time.process_time() - start

    seconds(100)
    assert seconds(40_000) < 40 * seconds(4_000)  # linear, with room for noise


# ------------------------------------------------------------------------------- create_graph


def test_recorded_grads_belong_to_their_leaves(torch):
    a, b = leaf(torch, 1.0, 1.0), leaf(torch, 2.0, 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (a + b).sum().backward(create_graph=True)
    a.grad.detach().zero_()
    assert b.grad.tolist() == [1, 1]
    x = leaf(torch, 3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x**2).sum().backward(create_graph=True)
    assert "CopyBackwards" in repr(x.grad)
    assert torch.autograd.grad(x.grad.sum(), x)[0].item() == 2


def test_a_cycle_of_grads_is_named_once(monkeypatch):
    import flambeau
    from flambeau.autograd import engine

    monkeypatch.setattr(engine, "_WARNED", set())
    x = leaf(flambeau, 3.0)
    with pytest.warns(UserWarning, match="reference cycle") as caught:
        (x**2).sum().backward(create_graph=True)
        (x**2).sum().backward(create_graph=True)
    assert len(caught) == 1


def test_grad_without_a_path_names_the_input(torch):
    a, b = leaf(torch, 1.0), leaf(torch, 2.0)
    with pytest.raises(RuntimeError, match="index 1 appears to not have been used"):
        torch.autograd.grad(a.sum(), [a, b])


def test_grad_takes_only_inputs(torch):
    x = leaf(torch, 1.0)
    assert torch.autograd.grad(x * 2, x, only_inputs=True)[0].item() == 2
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        torch.autograd.grad(x * 2, x, only_inputs=False)


def test_gradients_of_vectors_are_no_views():
    """So that a leaf takes them over as they are."""
    import flambeau

    x = flambeau.randn(2, 3, 4, requires_grad=True)
    for layer in (flambeau.nn.LayerNorm(4), flambeau.nn.Linear(4, 5)):
        gradients = flambeau.autograd.grad(layer(x).sum(), list(layer.parameters()))
        assert all(g._array.base is None for g in gradients)
        assert [g.shape for g in gradients] == [p.shape for p in layer.parameters()]


def test_gradient_edges_stand_for_tensors(torch):
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    z = y.exp()
    edge = torch.autograd.graph.get_gradient_edge
    e2 = torch.full((2,), 2.0).exp()
    assert torch.equal(torch.autograd.grad(z.sum(), edge(y), retain_graph=True)[0], e2)
    assert torch.equal(torch.autograd.grad(z.sum(), edge(x), retain_graph=True)[0], 2 * e2)
    assert torch.equal(torch.autograd.grad(edge(z), x, torch.ones(2), retain_graph=True)[0], 2 * e2)
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        torch.autograd.grad(edge(z), x)
    torch.autograd.backward(edge(z), torch.ones(2))
    assert torch.equal(x.grad, 2 * e2)
    first = torch.stack([x, x]).unbind()[1]
    assert edge(first).output_nr == 1
    assert torch.autograd.grad(edge(first), x, torch.ones(2))[0].tolist() == [1.0, 1.0]


def test_edge_of_a_tensor_knows_what_passes_it(torch):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.sin().sum()
    edge = torch.autograd.graph.get_gradient_edge(y)
    (g,) = torch.autograd.grad(edge, x, retain_graph=True)
    assert torch.equal(g, x.detach().cos())
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        torch.autograd.grad(edge, x, torch.ones(3))
    vector = torch.autograd.graph.get_gradient_edge(x.sin())
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        torch.autograd.grad(vector, x)


def test_materialized_zeros(torch):
    x, y = (torch.ones(2, requires_grad=True).clone() for _ in range(2))
    (g,) = torch.autograd.grad(x.sum(), y, materialize_grads=True, create_graph=True)
    assert g.tolist() == [0, 0] and g.requires_grad
    edge = torch.autograd.graph.GradientEdge(y.grad_fn, y.output_nr)
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when"):
        torch.autograd.grad(x.sum(), edge, materialize_grads=True, allow_unused=True)


def test_linear_shows_its_edges_in_the_order_of_addmm(torch):
    layer, x = torch.nn.Linear(3, 2), torch.ones(1, 3, requires_grad=True)
    bias, input, weight = (node for node, _ in layer(x).grad_fn.next_functions)
    if torch.__name__ == "torch":  # a transpose stands before the weight
        weight = weight.next_functions[0][0]
    assert bias.variable is layer.bias
    assert input.variable is x
    assert weight.variable is layer.weight


def test_callbacks_run_at_the_end_of_backward(torch):
    engine = torch.autograd.Variable._execution_engine
    x, seen = torch.ones(1, requires_grad=True), []

    def last():
        seen.append("last")

    def callback():
        seen.append("callback")
        engine.queue_callback(last)

    def hook(g):
        engine.queue_callback(callback)
        seen.append("hook")

    y = x * 2
    y.register_hook(hook)
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append("leaf"))
    y.backward()
    assert seen == ["hook", "leaf", "callback", "last"]
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward"):
        engine.queue_callback(last)


def test_a_view_that_is_older_than_requires_grad_is_not_written(torch):
    x = torch.zeros(2, 3)
    view = x[:]
    view.add_(1)
    x.requires_grad = True
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being"):
        view.add_(1)
    with torch.no_grad():
        view.add_(1)
    assert x.tolist() == [[2.0] * 3] * 2


def test_numpy_reads_tensors_that_require_grad_within_no_grad(torch):
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert x.numpy().tolist() == [1, 1] and numpy.asarray(x).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        x.numpy()
    with pytest.raises(RuntimeError, match="Deleting tensor data is not allowed"):
        del x.data


def test_multithreading_switch(torch):
    autograd = torch.autograd
    with autograd.set_multithreading_enabled(False):
        assert not autograd.is_multithreading_enabled()
        x = torch.ones(2, requires_grad=True)
        x.sum().backward()
    assert autograd.is_multithreading_enabled()
    autograd.set_multithreading_enabled(False)
    assert not autograd.is_multithreading_enabled()
    autograd.set_multithreading_enabled(True)


def test_what_cannot_be_deleted(torch):
    x = torch.ones(2, requires_grad=True)
    del x.grad
    for name, message in (
        ("data", "Delete tensor instead"), ("requires_grad", "must be a bool"),
        ("_grad_fn", "Detach tensor instead"), ("_backward_hooks", "not allowed"),
    ):
        with pytest.raises(RuntimeError, match=message):
            delattr(x, name)
    assert x._backward_hooks is None
    x.register_hook(lambda g: g)
    assert len(x._backward_hooks) == 1


def test_nodes_and_saved_tensors_count_their_arguments(torch):
    x = torch.ones(2, requires_grad=True)
    node = (x ** 2).grad_fn
    for gradients in ((), (x.detach(), x.detach())):
        with pytest.raises(TypeError, match=f"expected 1 arguments, got {len(gradients)} instead"):
            node(*gradients)
    assert node(x.detach()).tolist() == [2, 2]
    saved = x.sin().grad_fn._raw_saved_self
    for hooks in ((abs,), (1, 1)):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            saved.register_hooks(*hooks)
    saved.register_hooks(lambda t: t, lambda t: t)


def test_operators_without_results_record_nothing(torch):
    x = torch.zeros(0, 3, requires_grad=True)
    assert x.unbind(0) == () == torch.split(x, []) and list(x) == [] == list(x * 2)
    (x * 2).sum().backward()
    assert x.grad.shape == (0, 3)
