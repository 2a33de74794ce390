"""What every optimizer promises: arguments, groups, steps, hooks, saving."""

import copy
import warnings

import numpy as np
import pytest

import flambeau as torch

from .problem import STEPS, gradients, leaf, parameters, run

# -------------------------------------------------------------------- arguments

OUT_OF_RANGE = [
    ("SGD", {"lr": -0.5}, "Invalid learning rate: -0.5"),
    ("SGD", {"momentum": -0.5}, "Invalid momentum value: -0.5"),
    ("SGD", {"weight_decay": -0.5}, "Invalid weight_decay value: -0.5"),
    ("SGD", {"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
    ("Adam", {"lr": -1}, "Invalid learning rate: -1"),
    ("Adam", {"betas": (1.0, 0.0)}, "Invalid beta parameter at index 0: 1.0"),
    ("Adam", {"betas": (0.5, 1.5)}, "Invalid beta parameter at index 1: 1.5"),
    ("Adam", {"betas": (0, 0.5)}, "betas must be either both floats or both Tensors"),
    ("Adam", {"eps": -1.0}, "Invalid epsilon value: -1.0"),
    ("AdamW", {"weight_decay": -1.0}, "Invalid weight_decay value: -1.0"),
    ("RMSprop", {"momentum": -1.0}, "Invalid momentum value: -1.0"),
    ("RMSprop", {"alpha": -1.0}, "Invalid alpha value: -1.0"),
    ("Adagrad", {"lr_decay": -0.5}, "Invalid lr_decay value: -0.5"),
    ("Adagrad", {"initial_accumulator_value": -1}, "Invalid initial_accumulator_value value"),
    ("Adadelta", {"rho": 1.1}, "Invalid rho value: 1.1"),
    ("Adamax", {"betas": (0.0, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
    ("NAdam", {"momentum_decay": -0.2}, "Invalid momentum_decay value: -0.2"),
    ("RAdam", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
    ("ASGD", {"weight_decay": -0.5}, "Invalid weight_decay value: -0.5"),
    ("Rprop", {"etas": (1.0, 0.5)}, "Invalid eta values: 1.0, 0.5"),
    ("Adafactor", {"d": 0.5}, "Clipping threshold d should be >= 1 but is: 0.5"),
    ("Adafactor", {"beta2_decay": 0.8}, "beta2_decay should be <= 0 but is: 0.8"),
    ("Muon", {"momentum": -1}, "momentum should be >= 0 but is: -1"),
    ("Muon", {"adjust_lr_fn": "none"}, "Adjust learning rate function none is not supported"),
    ("SparseAdam", {"lr": 0.0}, "Invalid learning rate: 0.0"),
]


@pytest.mark.parametrize(("name", "options", "message"), OUT_OF_RANGE)
def test_values_out_of_range(name, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(torch.optim, name)([torch.ones(2, 2, requires_grad=True)], **options)


def test_parameters_must_be_leaves_in_ordered_collections():
    w = torch.ones(2, requires_grad=True)
    sgd = torch.optim.SGD
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        sgd([])
    with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts, but got"):
        sgd(w)
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        sgd([w * 2])
    with pytest.raises(TypeError, match="can only optimize Tensors, but one of the params is str"):
        sgd(["w"])
    optimizer = sgd([w])
    with pytest.raises(TypeError, match="the ordering of tensors in sets will change"):
        optimizer.add_param_group({"params": {torch.ones(1)}})
    with pytest.raises(TypeError, match="param_group must be a dict"):
        optimizer.add_param_group([w])
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        optimizer.add_param_group({"params": w})
    with pytest.warns(UserWarning, match="parameter group with duplicate parameters"):
        sgd([w, w])
    product = w * 2
    product.retain_grad()
    sgd([product])


def test_fused_excludes_foreach_and_differentiable():
    w = torch.ones(2, requires_grad=True)
    for cls in (torch.optim.Adam, torch.optim.SGD, torch.optim.Adagrad):
        with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
            cls([w], fused=True, differentiable=True)
        with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True` together"):
            cls([w], fused=True, foreach=True)


def test_required_options():
    from flambeau.optim.optimizer import Optimizer, required

    class Plain(Optimizer):
        def step(self, closure=None):
            return None

    w = torch.ones(1, requires_grad=True)
    with pytest.raises(ValueError, match="value of required optimization parameter lr"):
        Plain([w], {"lr": required})
    with pytest.raises(NotImplementedError):
        Optimizer([w], {}).step()


def test_groups_have_options_of_their_own():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1, momentum=0.9)
    a.grad, b.grad = torch.ones(2), torch.ones(2)
    optimizer.step()
    assert a.tolist() == pytest.approx([0.9, 0.9])
    assert b.tolist() == [0.5, 0.5]
    c = torch.ones(2, requires_grad=True)
    optimizer.add_param_group({"params": [c], "momentum": 0})
    assert [g["momentum"] for g in optimizer.param_groups] == [0.9, 0.9, 0]


def test_named_parameters():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([("a", a)], lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["a"]
    assert optimizer.param_groups[0]["params"][0] is a
    with pytest.raises(ValueError, match="cannot add param group without names to the optimizer"):
        optimizer.add_param_group({"params": [b]})
    optimizer.add_param_group({"params": [("b", b)]})
    with pytest.raises(ValueError, match="Some param names are missing"):
        torch.optim.SGD([("a", a), b])


# -------------------------------------------------------------------- what a step does


def test_zero_grad():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w])
    w.grad = torch.ones(2)
    gradient = w.grad
    optimizer.zero_grad(set_to_none=False)
    assert w.grad is gradient
    assert gradient.tolist() == [0, 0]
    optimizer.zero_grad()
    assert w.grad is None


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_frozen_parameters(name):
    w = torch.ones(2, requires_grad=True)
    options = {"momentum": 0.9} if name == "SGD" else {}
    optimizer = getattr(torch.optim, name)([w], lr=0.1, weight_decay=0.1, **options)
    optimizer.step()
    assert w.tolist() == [1, 1]
    assert not optimizer.state
    w.grad = torch.zeros(2)
    optimizer.step()
    assert w[0].item() < 1  # a gradient of zero: weight decay moves it


def test_momentum_drifts_on_zero_gradients():
    w = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9, weight_decay=0.1)
    expected, velocity = 1.0, 0.0
    for _ in range(10):
        w.grad = torch.zeros(1)
        optimizer.step()
        velocity = 0.9 * velocity + 0.1 * expected
        expected -= 0.1 * velocity
        assert w.item() == pytest.approx(expected, rel=1e-5)


def test_parameters_that_join_later_and_sit_out():
    a, b = [leaf(v) for v in parameters()[:2]]
    alone = leaf(parameters()[0])
    both, single = torch.optim.Adam([a, b], lr=0.1), torch.optim.Adam([alone], lr=0.1)
    for step in range(STEPS):
        a.grad = alone.grad = torch.from_numpy(gradients(step, parameters())[0])
        b.grad = torch.ones_like(b) if step % 3 == 1 else None
        both.step()
        single.step()
    assert a.tolist() == alone.tolist()
    assert both.state[b]["step"].item() == 4


def test_step_counts_as_a_write():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.Adam([w])
    for _ in range(STEPS):
        y = w * w
        y.sum().backward(retain_graph=True)
        before = w._version
        optimizer.step()
        assert w._version > before
        with pytest.raises(RuntimeError, match=r"modified by an in-?place operation"):
            y.sum().backward()


def test_gradients_and_parameters_that_are_not_contiguous():
    value = np.arange(6.0).reshape(2, 3)
    plain, turned = leaf(value), torch.from_numpy(value.T.copy()).t().detach().requires_grad_()
    assert not turned.is_contiguous()
    optimizers = [torch.optim.Adam([p], lr=0.1) for p in (plain, turned)]
    for step in range(STEPS):
        g = np.random.default_rng(step).standard_normal((3, 2))
        plain.grad = torch.from_numpy(g.T.copy())
        turned.grad = torch.from_numpy(g).t()
        for optimizer in optimizers:
            optimizer.step()
    assert plain.tolist() == turned.tolist()
    plain.grad = torch.ones(1, 1, dtype=torch.float64).expand(2, 3)
    optimizers[0].step()


def test_mixed_dtypes():
    values = [np.ones(3, np.float16), np.ones(3, np.float32), np.ones(3), np.ones(3, np.complex64)]
    leaves = [leaf(v) for v in values]
    optimizer = torch.optim.SGD(leaves, lr=0.125, momentum=0.5)
    for _ in range(STEPS):
        for p in leaves:
            p.grad = torch.ones_like(p)
        optimizer.step()
    want = 1 - 0.125 * sum(2 - 2.0**-k for k in range(STEPS))
    for p in leaves:
        assert p[0].item() == pytest.approx(want, rel=1e-2)


def test_state_replaced_by_hand_is_used():
    w = torch.ones(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.5)
    for _ in range(STEPS):
        w.grad = torch.zeros(2, dtype=torch.float64)
        optimizer.step()
    optimizer.state[w]["momentum_buffer"] = torch.full((2,), 4.0, dtype=torch.float64)
    optimizer.step()
    assert w.tolist() == pytest.approx([0.8, 0.8])
    w.data = torch.zeros(2, dtype=torch.float64)
    optimizer.step()
    assert w.tolist() == pytest.approx([-0.1, -0.1])


def test_learning_rate_as_tensor():
    w = torch.ones(2, dtype=torch.float64, requires_grad=True)
    rate = torch.tensor(0.5, dtype=torch.float64)
    optimizer = torch.optim.SGD([w], lr=rate)
    w.grad = torch.ones(2, dtype=torch.float64)
    optimizer.step()
    rate.fill_(0.25)
    optimizer.step()
    assert w.tolist() == [0.25, 0.25]
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        torch.optim.SGD([w], lr=torch.ones(2))


def test_differentiable_step():
    lr = torch.tensor(0.5, requires_grad=True)
    leaf_w = torch.ones(2, requires_grad=True)
    w = leaf_w.clone()
    w.retain_grad()
    optimizer = torch.optim.SGD([w], lr=lr, differentiable=True)
    w.grad = torch.tensor([2.0, 3.0])
    optimizer.step()
    w.sum().backward()
    assert lr.grad.item() == -5
    assert leaf_w.grad.tolist() == [1, 1]


def test_differentiable_adam():
    lr = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    w = torch.ones(2, dtype=torch.float64, requires_grad=True).clone()
    optimizer = torch.optim.Adam([w], lr=lr, differentiable=True, amsgrad=True)
    for _ in range(2):
        w.grad = torch.tensor([2.0, 3.0], dtype=torch.float64)
        optimizer.step()
    w.sum().backward()
    assert lr.grad.item() == pytest.approx(-4, abs=1e-6)  # each step is -lr * sign(grad)


def test_differentiable_nadam_by_its_product_of_momenta():
    def step(product):
        w = torch.ones(2, dtype=torch.float64, requires_grad=True).clone()
        w.grad = torch.tensor([2.0, 3.0], dtype=torch.float64)
        optimizer = torch.optim.NAdam([w], lr=0.5, differentiable=True)
        optimizer.state[w].update(
            step=torch.tensor(10.0), mu_product=product.clone(),
            exp_avg=torch.full_like(w, 0.5), exp_avg_sq=torch.full_like(w, 0.25),
        )
        optimizer.step()
        return w

    product = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(step, (product,))


def test_closure():
    w = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)

    def closure():
        assert torch.is_grad_enabled()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 1
    assert w.item() == pytest.approx(0.8)


# -------------------------------------------------------------------- hooks


def test_step_hooks():
    from flambeau.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)])
    calls = []

    def note(name):
        return lambda own, args, kwargs: calls.append((name, own is optimizer, len(args)))

    handles = [
        optimizer.register_step_pre_hook(note("pre")),
        optimizer.register_step_post_hook(note("post")),
        register_optimizer_step_pre_hook(note("global pre")),
        register_optimizer_step_post_hook(note("global post")),
    ]
    optimizer.step()
    names = ["global pre", "pre", "post", "global post"]
    assert calls == [(name, True, 1) for name in names]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(calls) == 4
    optimizer.register_step_pre_hook(lambda own, args, kwargs: (args, {"closure": lambda: 7}))
    assert optimizer.step() == 7
    optimizer.register_step_pre_hook(lambda own, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        optimizer.step()


def test_state_dict_hooks():
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    calls = []
    optimizer.register_state_dict_pre_hook(lambda own: calls.append("pre"))
    optimizer.register_state_dict_post_hook(lambda own, state: {**state, "more": 1})
    state = optimizer.state_dict()
    assert state.pop("more") == 1
    state["param_groups"][0]["lr"] = 0.2
    optimizer.register_load_state_dict_post_hook(lambda own: calls.append("loaded"))
    optimizer.register_load_state_dict_pre_hook(lambda own, state: calls.append("second"))
    optimizer.register_load_state_dict_pre_hook(
        lambda own, state: calls.append("first"), prepend=True
    )
    optimizer.load_state_dict(state)
    assert calls == ["pre", "first", "second", "loaded"]
    assert optimizer.param_groups[0]["lr"] == 0.2


# -------------------------------------------------------------------- saving


def test_state_dict_numbers_parameters_across_groups():
    a, b, c = (torch.ones(2, requires_grad=True) for _ in range(3))
    optimizer = torch.optim.Adam([{"params": [a, b]}, {"params": [c]}])
    c.grad = torch.ones(2)
    optimizer.step()
    state = optimizer.state_dict()
    assert [g["params"] for g in state["param_groups"]] == [[0, 1], [2]]
    assert list(state["state"]) == [2]
    assert list(state["state"][2]) == ["step", "exp_avg", "exp_avg_sq"]
    assert state["state"][2]["step"].dtype is torch.float32


def test_load_state_dict_casts_and_checks():
    single = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.Adam([single])
    single.grad = torch.ones(2)
    optimizer.step()
    double = torch.ones(2, dtype=torch.float64, requires_grad=True)
    other = torch.optim.Adam([double])
    other.load_state_dict(optimizer.state_dict())
    state = other.state[double]
    assert state["exp_avg"].dtype is torch.float64
    assert state["step"].dtype is torch.float32
    more = torch.optim.Adam([double, torch.ones(1, requires_grad=True)])
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        more.load_state_dict(optimizer.state_dict())
    more = torch.optim.Adam([{"params": [double]}, {"params": [torch.ones(1)]}])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        more.load_state_dict(optimizer.state_dict())


def test_old_counters_become_tensors():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.Adam([w])
    w.grad = torch.ones(2)
    optimizer.step()
    state = copy.deepcopy(optimizer.state_dict())
    state["state"][0]["step"] = 3
    optimizer.load_state_dict(state)
    optimizer.step()
    assert optimizer.state[w]["step"].item() == 4


def test_repr():
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    assert repr(optimizer) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n"
        "    foreach: None\n    fused: None\n    lr: 0.1\n    maximize: False\n"
        "    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)"
    )


def test_sparse_adam_refuses_dense_gradients():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SparseAdam([w])
    w.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        optimizer.step()


def test_swapped_in_parameters_and_state():
    w = torch.ones(1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5, momentum=0.5)
    w.grad = torch.ones(1, dtype=torch.float64)
    optimizer.step()
    packed = optimizer.state_dict()
    packed["state"] = {0: {"momentum_buffer": torch.full((1,), 8.0, dtype=torch.float64)}}
    guest = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    guest.grad = torch.zeros(1, dtype=torch.float64)
    with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"w": guest}, packed):
        optimizer.step()
    assert guest.item() == -2
    assert w.item() == 0.5
    assert optimizer.state[w]["momentum_buffer"].item() == 1
    fresh = torch.optim.SGD([w])
    swap = torch.optim.swap_in_optimizer_params_and_state(fresh, {}, packed)
    with pytest.raises(RuntimeError, match="requires initialized optimizer state"), swap:
        pass


def test_no_warnings_in_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        leaves = [leaf(v) for v in parameters()]
        run(torch.optim.Adam(leaves), leaves)
