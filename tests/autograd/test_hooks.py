"""Hooks on tensors, on nodes, after accumulation and on what is saved."""

from __future__ import annotations

import gc
import math
import weakref

import pytest


def leaf(torch, *values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


# ----------------------------------------------------------------------------------- on tensors


def test_hooks_run_in_order_and_replace(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    y.register_hook(lambda g: seen.append(("first", g.item())) or g * 10)
    y.register_hook(lambda g: seen.append(("second", g.item())))
    x.register_hook(lambda g: seen.append(("leaf", g.item())) or g + 1)
    y.backward()
    assert seen == [("first", 1.0), ("second", 10.0), ("leaf", 20.0)]
    assert x.grad.item() == 21


def test_hook_is_removed(torch):
    x, seen = leaf(torch, 1.0), []
    handle = x.register_hook(seen.append)
    (x * 2).backward()
    handle.remove()
    handle.remove()
    (x * 2).backward()
    assert len(seen) == 1


def test_hook_that_removes_itself(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    handle = y.register_hook(lambda g: (seen.append(1), handle.remove(), None)[-1])
    y.backward(retain_graph=True)
    y.backward()
    assert seen == [1]


def test_hook_sees_the_sum_of_all_paths(torch):
    x, seen = leaf(torch, 3.0), []
    y = x * 1
    y.register_hook(lambda g: seen.append(g.item()))
    (y * y + 5 * y).backward()
    assert seen == [11.0]


def test_leaf_hook_sees_the_sum_of_all_paths(torch):
    x, other, seen = leaf(torch, 3.0), leaf(torch, 1.0), []
    x.register_hook(lambda g: seen.append(g.item()) or g * 2)
    other.register_hook(lambda g: seen.append(-g.item()))
    y = x * x + other * 4 + 5 * x.exp().log()
    y.backward(retain_graph=True)
    assert sorted(seen) == pytest.approx([-4.0, 11.0])
    assert x.grad.item() == pytest.approx(22)
    assert torch.autograd.grad(y, x, retain_graph=True)[0].item() == pytest.approx(22)
    y.backward(inputs=[x])
    assert x.grad.item() == pytest.approx(44)


def test_leaf_hook_where_a_path_brings_nothing(torch):
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    x, seen = leaf(torch, 3.0), []
    x.register_hook(lambda g: seen.append(g.item()))
    (x * 2 + Nothing.apply(x * 1)).backward()
    assert seen == [2.0]
    assert x.grad.item() == 2


def test_leaf_hook_sees_each_backward_alone(torch):
    x, seen = leaf(torch, 3.0), []
    x.register_hook(lambda g: seen.append(g.item()))
    (x * 2).backward()
    (x * 5).backward()
    assert seen == [2.0, 5.0]
    assert x.grad.item() == 7


def test_hooks_on_outputs_of_one_node(torch):
    x, seen = leaf(torch, 1.0, 2.0), {}
    a, b = x.unbind(0)
    a.register_hook(lambda g: seen.update(a=g.item()))
    b.register_hook(lambda g: seen.update(b=g.item()))
    (3 * a + 4 * b).backward()
    assert seen == {"a": 3.0, "b": 4.0}


def test_hook_with_autograd_grad(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    y.register_hook(lambda g: g * 7)
    assert torch.autograd.grad(y * 3, x)[0].item() == 42


def test_hook_on_a_captured_tensor_comes_first(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    y.register_hook(lambda g: g * 7)
    assert torch.autograd.grad(y * 3, y)[0].item() == 21


def test_hook_is_part_of_the_graph(torch):
    x = leaf(torch, 2.0)
    y = x * x
    y.register_hook(lambda g: g * g * 3)
    (g,) = torch.autograd.grad(y * x, x, create_graph=True)  # 3 x x (2 x) + x x
    assert g.item() == 52
    (gg,) = torch.autograd.grad(g, x)  # the hook works on the way through y again: 18 x x + 3 (2 x)
    assert gg.item() == 84


def test_hook_stays_with_the_history_it_was_put_on(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.item()))
    y.mul_(5)
    y.backward()
    assert seen == [5.0]
    assert x.grad.item() == 10


def test_errors(torch):
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        torch.ones(1).register_hook(lambda g: g)
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    handle = y.register_hook(lambda g: g[:1])
    with pytest.raises(RuntimeError, match="changed the size of value"):
        y.sum().backward()
    handle.remove()
    y = x * 2
    y.register_hook(lambda g: 1.0)
    with pytest.raises(TypeError):
        y.sum().backward()
    y = x * 2
    y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()


def test_retain_grad(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    y.register_hook(lambda g: g * 3)
    (y * 5).backward(retain_graph=True)
    assert y.grad.item() == 15
    (y * 5).backward()
    assert y.grad.item() == 30
    assert x.grad.item() == 60


def test_retain_grad_of_leaves_and_constants(torch):
    x = leaf(torch, 1.0)
    x.retain_grad()
    assert not x.retains_grad
    with pytest.raises(RuntimeError, match="can't retain_grad"):
        torch.ones(1).retain_grad()


def test_retain_grad_before_a_write_in_place(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    y.retain_grad()
    y.mul_(5)
    y.backward()
    assert y.grad.item() == 1
    assert x.grad.item() == 10


def test_retain_grad_of_a_base_and_its_views_before_a_write_through_a_view(torch):
    base = leaf(torch, 1.0, 2.0) * 1
    first, second = base[:], base[:]
    for x in (base, first, second):
        x.retain_grad()
    first.mul_(2)
    (3 * first + 5 * second + 7 * base).sum().backward()
    assert first.grad.tolist() == [3.0, 3.0]
    assert second.grad.tolist() == [5.0, 5.0]
    assert base.grad.tolist() == [15.0, 15.0]


# --------------------------------------------------------------------------- after accumulation


def test_post_accumulate_hook(torch):
    x, seen = leaf(torch, 1.0, 2.0), []

    def step(parameter):
        assert parameter is x
        seen.append(parameter.grad.tolist())
        with torch.no_grad():
            parameter -= 0.5 * parameter.grad
        parameter.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * x).sum().backward()
    assert seen == [[2.0, 4.0]]
    assert x.grad is None
    assert x.tolist() == [0.0, 0.0]
    handle.remove()
    (x * 3).sum().backward()
    assert len(seen) == 1
    assert x.grad.tolist() == [3.0, 3.0]


def test_post_accumulate_hook_runs_once_a_backward(torch):
    x, seen = leaf(torch, 1.0), []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.item()))
    (x * 2 + x * 3).backward()
    assert seen == [5.0]


def test_post_accumulate_hook_only_on_leaves(torch):
    with pytest.raises(RuntimeError, match="non-leaf"):
        (leaf(torch, 1.0) * 2).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        torch.ones(1).register_post_accumulate_grad_hook(print)


def test_post_accumulate_hook_not_run_by_grad(torch):
    x, seen = leaf(torch, 1.0), []
    x.register_post_accumulate_grad_hook(seen.append)
    torch.autograd.grad(x * 2, x)
    assert not seen
    assert x.grad is None


# ------------------------------------------------------------------------------------- on nodes


def test_node_hooks(torch):
    x, seen = leaf(torch, 2.0), []
    y = x * 3
    y.grad_fn.register_prehook(lambda gs: (seen.append(("pre", gs[0].item())), (gs[0] * 10,))[1])

    def after(inputs, outputs):
        seen.append(("post", inputs[0].item(), outputs[0].item()))
        return tuple(None if g is None else g + 1 for g in inputs)

    handle = y.grad_fn.register_hook(after)
    y.backward(retain_graph=True)
    assert seen == [("pre", 1.0), ("post", 30.0, 10.0)]
    assert x.grad.item() == 31
    handle.remove()
    y.backward()
    assert x.grad.item() == 61


def test_tensor_hooks_come_before_node_hooks(torch):
    x, seen = leaf(torch, 2.0), []
    y = x * 3
    y.grad_fn.register_prehook(lambda gs: seen.append("node"))
    y.register_hook(lambda g: seen.append("tensor"))
    y.backward()
    assert seen == ["tensor", "node"]


def test_accumulators_hooks(torch):
    x, seen = leaf(torch, 2.0), []
    accumulator = (x * 3).grad_fn.next_functions[0][0]
    assert accumulator.variable is x
    accumulator.register_prehook(lambda gs: (seen.append(gs[0].item()), (gs[0] * 2,))[1])
    (x * 3).backward()
    assert seen == [3.0]
    assert x.grad.item() == 6


def test_accumulators_hooks_see_what_the_tensors_hooks_leave_and_only_where_grads_accumulate(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 1
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator.register_prehook(lambda gs: seen.append(("pre", gs[0].item())))
    accumulator.register_hook(lambda none, gs: seen.append((len(none), gs[0].item())))
    x.register_hook(lambda g: g * 2)
    torch.autograd.grad(y, x, retain_graph=True)
    assert seen == []
    y.backward(retain_graph=True)
    y.backward()
    assert seen == [("pre", 2.0), (0, 2.0)] * 2


def test_a_post_accumulate_hook_returns_nothing(torch):
    x = leaf(torch, 1.0)
    x.register_post_accumulate_grad_hook(lambda x: x.grad)
    with pytest.raises(RuntimeError, match="hooks should return None"):
        x.sum().backward()


def test_hooks_of_tensors_that_a_pass_does_not_need_do_not_run(torch):
    x, y, seen = leaf(torch, 1.0), leaf(torch, 2.0), []
    p = x * 2
    p.register_hook(seen.append)
    torch.autograd.grad(p * y, y)
    assert seen == []


def test_a_view_that_is_written_leaves_its_hooks_behind(torch):
    base, seen = leaf(torch, 1.0) * 1, []
    view, other = base[:], base[:]
    view.register_hook(seen.append)
    other.register_hook(seen.append)
    view.mul_(2)
    assert other.grad_fn is not None
    (view + other).sum().backward()
    assert seen == []


def test_multi_grad_hook(torch):
    a, b, seen = leaf(torch, 1.0), leaf(torch, 2.0), []
    torch.autograd.graph.register_multi_grad_hook(
        (a, b), lambda gs: seen.append([None if g is None else g.item() for g in gs])
    )
    (a * 3 + b * 4).backward()
    assert seen == [[3.0, 4.0]]
    handle = torch.autograd.graph.register_multi_grad_hook(
        (a, b), lambda g: seen.append(g.item()), mode="any"
    )
    (a * 5).backward()
    assert seen[-1] == 5.0
    handle.remove()


def test_multi_grad_hook_of_tensors_that_a_pass_does_not_come_to(torch):
    a, b, c, seen = leaf(torch, 1.0), leaf(torch, 2.0), leaf(torch, 3.0), []
    p, q, r = a * 2, b * 3, c * 4
    handle = torch.autograd.graph.register_multi_grad_hook(
        (p, q, r), lambda gs: seen.append([None if g is None else g.item() for g in gs])
    )
    y = p * q
    y.backward(inputs=(p, q), retain_graph=True)
    assert seen == [[6.0, 2.0, None]]
    y.backward(inputs=(r,), retain_graph=True)
    y.backward(inputs=(b,), retain_graph=True)
    assert seen[1:] == [[None, 2.0, None]]
    y.backward(retain_graph=True)
    assert seen[2:] == [[6.0, 2.0, None]]
    handle.remove()
    y.backward()
    assert len(seen) == 3


def test_multi_grad_hook_of_any_runs_once_a_pass(torch):
    x, seen = leaf(torch, 1.0), []
    p, q = x * 2, x * 3
    torch.autograd.graph.register_multi_grad_hook(
        (p, q), lambda g: seen.append(g.item()), mode="any"
    )
    y = p * q
    y.backward(retain_graph=True)
    assert len(seen) == 1
    y.backward()
    assert len(seen) == 2


def test_what_counts_as_a_node(torch):
    from abc import ABCMeta

    Node = torch.autograd.graph.Node

    class Checked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            assert isinstance(ctx, Node)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(torch, 1.0)
    y = Checked.apply(x * 2)
    for node in (y.grad_fn, y.grad_fn.next_functions[0][0]):
        assert isinstance(node, Node)
        assert issubclass(type(node), Node)
        assert Node not in type(node).mro()
    assert issubclass(torch._C._functions.AccumulateGrad, Node)
    assert issubclass(torch.autograd.function.BackwardCFunction, Node)
    assert issubclass(Node, Node)
    assert type(Node) is ABCMeta
    assert not isinstance(None, Node)
    assert not isinstance(Node, Node)


def test_metadata_and_names(torch):
    y = leaf(torch, 1.0) * 2
    y.grad_fn.metadata["note"] = 1
    assert y.grad_fn.metadata == {"note": 1}
    assert y.grad_fn.name() == "MulBackward0"


# ------------------------------------------------------------------------------ on what is saved


def test_saved_tensors_hooks(torch):
    packed = []

    def pack(t):
        packed.append(tuple(t.shape))
        return (t.detach().clone() * 1).tolist()

    x = leaf(torch, 1.0, 2.0)
    with torch.autograd.graph.saved_tensors_hooks(
        pack, lambda packed: torch.tensor(packed, dtype=torch.float64)
    ):
        y = x * x
    z = y.exp()
    z.sum().backward()
    assert packed == [(2,), (2,)]
    assert torch.allclose(x.grad, 2 * x.detach() * (x.detach() ** 2).exp())


def test_saved_tensors_hooks_nest(torch):
    seen = []

    def hooks(name):
        return torch.autograd.graph.saved_tensors_hooks(
            lambda t: (seen.append(name), t)[1], lambda t: t
        )

    x = leaf(torch, 1.0)
    with hooks("outer"):
        with hooks("inner"):
            x.exp()
        x.exp()
    x.exp()
    assert seen == ["inner", "outer"]


def test_saved_tensors_hooks_are_not_recorded(torch):
    x = leaf(torch, 1.0)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t * 2):
        y = x.exp()
    y.backward()
    assert x.grad.item() == pytest.approx(2 * 2.718281828459045)


def test_saved_tensors_hooks_see_functions(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    seen, x = [], leaf(torch, 3.0)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: (seen.append(t.item()), t)[1], lambda t: t
    ):
        y = Square.apply(x)
    y.backward()
    assert seen == [3.0]
    assert x.grad.item() == 6


def test_disabled_saved_tensors_hooks(torch):
    graph = torch.autograd.graph
    with graph.disable_saved_tensors_hooks("not here"):  # noqa: SIM117
        with pytest.raises(RuntimeError, match="not here"):
            graph.saved_tensors_hooks(lambda t: t, lambda t: t).__enter__()


def test_save_on_cpu(torch):
    x = leaf(torch, 3.0)
    with torch.autograd.graph.save_on_cpu():
        y = x * x
    y.backward()
    assert x.grad.item() == 6


# ----------------------------------------------------------------------------------- their lives


def test_retain_grad_does_not_keep_the_tensor_alive(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    z = y * 3
    y.retain_grad()
    reference = weakref.ref(y)
    del y
    gc.collect()
    assert reference() is None
    z.backward()
    assert x.grad.item() == 6


def test_leaves_frozen_after_the_forward_get_no_grad(torch):
    ran = []
    w, v = (torch.ones(2, requires_grad=True) for _ in range(2))
    hooked = torch.ones(2, requires_grad=True)
    hooked.register_hook(lambda g: ran.append("before"))
    hooked.register_post_accumulate_grad_hook(lambda p: ran.append("after"))
    y = (w * v * hooked).sum()
    w.requires_grad_(False)
    hooked.requires_grad_(False)
    y.backward()
    assert w.grad is None and hooked.grad is None and ran == ["before", "after"]
    assert v.grad.tolist() == [1.0, 1.0]


def test_hook_of_an_output_that_got_no_gradient(torch):
    x = torch.ones(3, requires_grad=True)
    first, second, _ = x.unbind()
    seen = []
    first.register_hook(seen.append)
    second.backward()
    assert seen == [None]
    first, second, _ = x.unbind()
    first.register_hook(lambda g: torch.ones(()))
    with pytest.raises(RuntimeError, match="can't replace a None gradient"):
        second.backward()


@pytest.mark.parametrize("when", ["register_hook", "register_prehook"])
def test_a_node_hook_gives_as_many_gradients_as_it_was_shown(torch, when):
    y = torch.ones(3, requires_grad=True) * torch.ones(3, requires_grad=True)

    def drops(*shown):
        return ()

    expected = 2 if when == "register_hook" else 1
    with getattr(y.grad_fn, when)(drops), pytest.raises(
        RuntimeError, match=rf"hook 'drops' has returned an incorrect number of values \(got 0, "
                            rf"but expected {expected}\)"
    ):
        y.sum().backward(retain_graph=True)
    with getattr(y.grad_fn, when)(lambda *shown: 1), pytest.raises(
        TypeError, match="expected tuple, but hook returned 'int'"
    ):
        y.sum().backward()


def test_gradcheck_calls_in_the_mode_of_its_caller(torch):
    def live(x):
        y = x * 2
        return tuple(v for v in (y, y.detach()) if v.requires_grad)

    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(live, (x,))


def test_hooks_of_a_saved_tensor_are_set_later(torch):
    x, weight = leaf(torch, 3.0), torch.tensor([5.0], dtype=torch.float64)
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda t: 2 * t, lambda t: 10 * t)
    assert y.grad_fn._saved_self.item() == 60 and y.grad_fn._saved_other.item() == 3
    with pytest.raises(RuntimeError, match="only one pair of hooks is allowed at a time"):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    saved = y.grad_fn._raw_saved_other
    y.backward()
    assert x.grad.item() == 63
    with pytest.raises(RuntimeError, match="on a saved tensor after it has been freed"):
        saved.register_hooks(lambda t: t, lambda t: t)

    y = x.exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: 0 * t)
    assert torch.autograd.grad(y, x)[0].item() == 0

    node = (x * weight).grad_fn
    assert node._saved_self is None  # weight needs no gradient
    with pytest.raises(RuntimeError, match="with value None is forbidden"):
        node._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(AttributeError, match="'MulBackward0' object has no attribute '_saved_a'"):
        _ = node._saved_a
    node._raw_saved_other.register_hooks(lambda t: 1, lambda number: number)
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor but got result of"):
        node(torch.ones(1, dtype=torch.float64))


def test_hooks_of_what_a_function_saved_are_set_later(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = leaf(torch, 3.0)
    y = Square.apply(x)
    y.grad_fn._raw_saved_tensors[0].register_hooks(lambda t: t + 1, lambda t: t)
    y.backward()
    assert x.grad.item() == 8


def test_nodes_can_be_called(torch):
    x, weight = leaf(torch, 3.0), torch.tensor([5.0], dtype=torch.float64)
    g = torch.tensor([2.0], dtype=torch.float64)
    gradient, none = (x * weight).grad_fn(g)
    assert gradient.item() == 10 and none is None
    assert x.detach().requires_grad_().sin().grad_fn(g).item() == 2 * math.cos(3)
    assert [y.item() for y in torch.stack([x, x]).grad_fn(torch.ones(2, 1))] == [1, 1]
    accumulate = (x * 2).grad_fn.next_functions[0][0]
    assert accumulate(g) == () and x.grad.item() == 2


def test_saved_tensors_hooks_that_backward_enters_end_with_it(torch):
    context = torch.autograd.graph.saved_tensors_hooks(lambda t: 1 / 0, lambda t: t)
    x = leaf(torch, 3.0)
    y = x * 2
    y.register_hook(lambda g: context.__enter__())
    y.backward()
    x.grad = None
    (x * x).backward()
    assert x.grad.item() == 6
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        y = x * x
    assert torch.autograd.grad(y, x)[0].item() == 12


# ------------------------------------------------------------------- backward into some tensors


def test_backward_into_a_result_runs_the_hooks_of_its_node(torch):
    x, log = leaf(torch, 1.0), []
    y = x.clone()
    y.grad_fn.register_prehook(lambda gs: log.append("pre") or tuple(g * 2 for g in gs))
    y.grad_fn.register_hook(lambda gs, outer: log.append("post"))
    y.register_hook(lambda g: log.append("tensor") or g * 3)
    x.register_hook(lambda g: log.append("leaf"))
    y.sum().backward(inputs=(y,))
    assert log == ["tensor", "pre", "post"]
    assert y.grad.tolist() == [3.0]  # seen before the node's own hooks
    assert y.retains_grad
    assert x.grad is None


def test_backward_into_a_result_and_a_leaf(torch):
    x = leaf(torch, 2.0)
    y = x * x
    (3 * y).backward(inputs=(y, x))
    assert (y.grad.item(), x.grad.item()) == (3.0, 12.0)
    (y.detach().requires_grad_() * 2).backward()


def test_backward_into_a_result_goes_no_further(torch):
    x = leaf(torch, 2.0)
    between = x * 3
    between.register_hook(lambda g: pytest.fail("the gradient went past its destination"))
    y = between * 5
    y.backward(inputs=(y,))
    assert y.grad.item() == 1.0
    assert x.grad is None
