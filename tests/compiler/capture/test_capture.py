"""Captured steps compute what they compute eagerly: outputs, states, grads, random numbers."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.compiler.capture.capture import capture
from flambeau.compiler.capture.live_tensors import find_live_tensors
from flambeau.compiler.driver.compiled_function import Compiled
from flambeau.compiler.trace.trace import CALL, find_divergence
from flambeau.ops.core.operator import PUBLIC
from flambeau.tensor.capture_marks import SHAPE_ONLY

from ..step_comparison import both, classify, compiled, left_by, runs, same, trainer


def _batch(i):
    return torch.randn(6, 8), torch.randint(0, 4, (6,))


def _mlp(optimizer_class, clip=None, **options):
    def make():
        net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
        optimizer = optimizer_class(net.parameters(), **options)
        return trainer(net, optimizer, classify, clip), left_by(net, optimizer)

    return make


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        ("Adam", {"lr": 0.01}), ("Adam", {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}),
        ("AdamW", {"lr": 0.01}), ("RMSprop", {"lr": 0.01, "centered": True, "momentum": 0.5}),
        ("Adagrad", {"lr": 0.1}), ("Adadelta", {}), ("Adamax", {}), ("NAdam", {}),
        ("ASGD", {}), ("Rprop", {}),
    ],
)
def test_training_steps(name, options):
    both(_mlp(getattr(torch.optim, name), **options), _batch)


def test_an_optimizer_whose_formula_changes_with_the_step_gets_another_program():
    both(_mlp(torch.optim.RAdam, lr=0.01), _batch, calls=14, least=4)


def test_clipping_and_groups():
    def make():
        net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
        optimizer = torch.optim.Adam([
            {"params": net[0].parameters(), "lr": 0.1}, {"params": net[2].parameters()},
        ])
        return trainer(net, optimizer, classify, 0.1), left_by(net, optimizer)

    both(make, _batch)


def test_a_scheduler_moves_the_learning_rate_of_a_program():
    schedulers = []

    def make():
        net = nn.Linear(8, 4)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
        schedulers.append(torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.3))
        return trainer(net, optimizer, classify), left_by(net, optimizer)

    fast = both(make, _batch, calls=9, between=lambda i: [s.step() for s in schedulers])
    assert len(fast._programs) == 1
    assert runs(fast) == 8


def test_step_counts_stay_in_the_state_dict():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4))
    optimizer = torch.optim.Adam(net.parameters())
    step = compiled(trainer(net, optimizer, classify))
    for i in range(7):
        step(*_batch(i))
    assert [s["step"].item() for s in optimizer.state_dict()["state"].values()] == [7.0] * 4
    trainer(net, optimizer, classify)(*_batch(0))  # eager steps tick on
    step(*_batch(1))
    assert [s["step"].item() for s in optimizer.state_dict()["state"].values()] == [9.0] * 4


def test_loading_a_state_dict_is_noticed():
    def make():
        net = nn.Linear(8, 4)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        inner = trainer(net, optimizer, classify)
        holders.append((net, optimizer))
        return inner, left_by(net, optimizer)

    holders: list = []

    def between(i):
        if i == 4:
            for _, optimizer in holders:
                state = optimizer.state_dict()
                for entry in state["state"].values():
                    entry["exp_avg"] = torch.zeros_like(entry["exp_avg"])
                optimizer.load_state_dict(state)

    both(make, _batch, calls=9, between=between)


@pytest.mark.parametrize("kind", ["batch_norm", "group_norm", "layer_norm"])
def test_norms_and_convolutions(kind):
    norms = {"batch_norm": lambda: nn.BatchNorm2d(4), "group_norm": lambda: nn.GroupNorm(2, 4),
             "layer_norm": lambda: nn.LayerNorm([4, 8, 8])}

    def make():
        net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, bias=False), norms[kind](), nn.GELU(),
                            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 4))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        return trainer(net, optimizer, classify), left_by(net, optimizer)

    both(make, lambda i: (torch.randn(5, 1, 8, 8), torch.randint(0, 4, (5,))), calls=5)


def test_recurrence_and_embedding():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.lstm = nn.Embedding(10, 4), nn.LSTM(4, 6, batch_first=True)
            self.output = nn.Linear(6, 10)

        def forward(self, x):
            return self.output(self.lstm(self.embedding(x))[0])

    def make():
        net = Model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
        loss = lambda net, x: F.cross_entropy(net(x).view(-1, 10), x.view(-1))  # noqa: E731
        return trainer(net, optimizer, loss), left_by(net, optimizer)

    both(make, lambda i: (torch.randint(0, 10, (3, 5)),), calls=5)


def test_attention():
    def make():
        net = nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        step = trainer(net, optimizer, lambda net, x: net(x).square().mean())
        return step, left_by(net, optimizer)

    both(make, lambda i: (torch.randn(2, 5, 8),), calls=5)


def test_views_and_writes_in_place():
    def make():
        def step(x, y):
            z = x.clone()
            z[:, 1] = 3.0
            z[0] += y[1]
            z.mul_(2)
            w = z.t()[1:3]
            w.add_(1)
            z[[0, 2]] = 0.5
            z[1:, ::2] = x[1:, ::2]
            z[z > 5] = 5
            column = z.view(-1)[3::4]
            column.copy_(y[:5, 0])
            return z, w, z.reshape(4, 5), z.flip(0), x[None], column.expand(2, 5)

        return step, dict

    both(make, lambda i: (torch.randn(5, 4), torch.randn(5, 4)), calls=5)


def test_writes_to_arguments_and_buffers():
    def make():
        total = torch.zeros(4)

        def step(x):
            total.add_(x.sum(0))
            x[0].zero_()
            return x, total * 2, x[1]

        return step, lambda: {"total": total}

    torch.manual_seed(0)
    eager, eager_left = make()
    step, left = make()
    fast = compiled(step)
    for _ in range(6):
        x = torch.randn(3, 4)
        a, b = x.clone(), x.clone()
        wanted, actual = eager(a), fast(b)
        same(actual, wanted)
        same((b, left()), (a, eager_left()))
        assert actual[0] is b
        assert actual[2].data_ptr() == b[1].data_ptr()
    assert runs(fast) == 5


def test_the_same_tensor_twice_and_overlapping_arguments():
    def step(x, y):
        x.add_(1)
        return x * y

    for make in (lambda: (lambda t: (t, t))(torch.ones(3)),
                 lambda: (lambda t: (t[:3], t[1:]))(torch.arange(4.0))):
        fast = compiled(step)
        for _ in range(6):
            args, other = make(), make()
            same(fast(*args), step(*other))
            same(args, other)
    fast = compiled(step)
    for i in range(8):  # now apart, now one
        a, b = torch.ones(3), torch.ones(3)
        first, second = ((a, b), (b, b))[i % 2 if i > 4 else 0], None
        second = (first[0].clone(),) * 2 if first[0] is first[1] \
            else (first[0].clone(), first[1].clone())
        same(fast(*first), step(*second))


def test_gradients_accumulate_and_go():
    def make():
        net = nn.Linear(8, 4)

        def step(x, y):
            classify(net, x, y).backward()

        def other(x, y):
            net.zero_grad()
            step(x, y)
            step(x, y)
            return net.weight.norm().detach()

        return other, left_by(net)

    both(make, _batch)
    net = nn.Linear(8, 4)
    fast = compiled(lambda x, y: classify(net, x, y).backward())
    twin = nn.Linear(8, 4)
    twin.load_state_dict(net.state_dict())
    for i in range(12):
        batch = _batch(i)
        if i % 4 == 0:
            net.zero_grad()
            twin.zero_grad()
        fast(*batch)
        classify(twin, *batch).backward()
        same(net.weight.grad, twin.weight.grad)
    assert runs(fast)


def test_random_draws_follow_the_generator():
    own = torch.Generator()

    def make():
        def step(x):
            noise = torch.rand(3) + torch.randn_like(x) + torch.empty(3).uniform_(1, 2)
            chosen = torch.bernoulli(x.sigmoid())
            return noise, torch.randperm(5), F.alpha_dropout(x, 0.3), chosen, torch.randint(9, (2,))

        return step, dict

    both(make, lambda i: (torch.randn(3),))
    assert own is not None


def test_autocast_and_half_precision():
    def make():
        net = nn.Linear(8, 4)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def loss(net, x, y):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                out = net(x)
            return F.cross_entropy(out.float(), y)

        return trainer(net, optimizer, loss), left_by(net, optimizer)

    torch.manual_seed(0)
    eager, _ = make()
    torch.manual_seed(0)
    fast = compiled(make()[0])
    for i in range(5):
        batch = _batch(i)
        same(fast(*batch), eager(*batch), 2e-2)
    assert runs(fast) == 4


def test_results_of_every_structure():
    def step(x):
        y = x * 2
        return {"a": (y, [y[0], None]), "b": 3, "c": y.T}

    fast = compiled(step)
    for _ in range(5):
        x = torch.randn(3, 4)
        same(fast(x), step(x))
    actual = fast(x)
    assert list(actual) == ["a", "b", "c"]
    assert isinstance(actual["a"][1], list)
    assert actual["c"].stride() == (1, 4)


def test_traces_of_equal_calls_are_equal_and_others_are_not():
    net = nn.Linear(8, 4)
    batch = _batch(0)
    first, second = (capture(classify, (net, *batch), {})[1] for _ in range(2))
    assert find_divergence(first, second) is None
    other = capture(lambda *a: classify(*a) * 2, (net, *batch), {})[1]
    assert find_divergence(first, other) is not None


def test_capture_restores_every_function():
    before = torch.Tensor.add.__code__, torch.relu.__code__, torch.Tensor.item.__code__
    with pytest.raises(ZeroDivisionError):
        capture(lambda: torch.ones(2).add(1) / 0 if 1 // 0 else None, (), {})
    capture(lambda: torch.ones(2).add(1).relu(), (), {})
    assert torch.Tensor.item.__code__ is before[2]
    assert torch.ones(2).add(1).tolist() == [2.0, 2.0]
    assert torch.relu(torch.tensor([-1.0])).item() == 0.0


_MASK = torch.tensor([True, False, True])

_INDEX = torch.tensor([2, 0])
# What is declared to write by operators alone, called so that it writes.
_BY_PARTS = {
    "add_": lambda x: x.add_(1.5), "sub_": lambda x: x.sub_(x, alpha=2),
    "div_": lambda x: x.div_(2, rounding_mode="floor"), "true_divide_": lambda x: x.true_divide_(2),
    "clamp_": lambda x: x.clamp_(0, 1), "clamp_min_": lambda x: torch.clamp_min_(x, 0.5),
    "clamp_max_": lambda x: torch.clamp_max_(x, 0.5), "pow_": lambda x: x.pow_(2),
    "masked_fill_": lambda x: x.masked_fill_(_MASK, 7.0), "elu_": F.elu_, "selu_": F.selu_,
    "celu_": F.celu_, "leaky_relu_": F.leaky_relu_,
    "dropout_": lambda x: torch.dropout_(x, 0.5, True),
    "copy_": lambda x: x.copy_(x + 1), "fill_": lambda x: x.fill_(3), "zero_": torch.Tensor.zero_,
    "requires_grad_": lambda x: x.mul(2).requires_grad_(),
    "detach_": lambda x: x.mul(2).detach_(),
    "uniform_": lambda x: x.uniform_(), "normal_": lambda x: x.normal_(),
    "bernoulli_": lambda x: x.bernoulli_(0.5), "exponential_": lambda x: x.exponential_(),
    "cauchy_": lambda x: x.cauchy_(), "log_normal_": lambda x: x.log_normal_(),
    "geometric_": lambda x: x.geometric_(0.5), "random_": lambda x: x.random_(5),
    "subtract_": lambda x: x.subtract_(1), "divide_": lambda x: x.divide_(3),
    "clip_": lambda x: x.clip_(0, 1), "ldexp_": lambda x: x.ldexp_(x + 1),
    "float_power_": lambda x: x.double().float_power_(2),
    "addbmm_": lambda x: (x.expand(3, 3) + 1).addbmm_(x.expand(2, 3, 3), x.expand(2, 3, 3)),
    "addr_": lambda x: (x.expand(3, 3) + 1).addr_(x, x),
    "tril_": lambda x: (x.expand(3, 3) + 1).tril_(),
    "triu_": lambda x: (x.expand(3, 3) + 1).triu_(),
    "scatter_": lambda x: x.scatter_(0, _INDEX, 1.0),
    "scatter_add_": lambda x: x.scatter_add_(0, _INDEX, x + 1),
    "scatter_reduce_": lambda x: x.scatter_reduce_(0, _INDEX, x + 1, "amax"),
    "index_add_": lambda x: x.index_add_(0, _INDEX, x[:2] + 1),
    "index_copy_": lambda x: x.index_copy_(0, _INDEX, x[:2] + 1),
    "index_fill_": lambda x: x.index_fill_(0, _INDEX, 5.0),
    "index_reduce_": lambda x: x.index_reduce_(0, _INDEX, x[:2] + 1, "amax"),
    "put_": lambda x: x.put_(_INDEX, x[:2] + 1),
    "alpha_dropout_": lambda x: torch.alpha_dropout_(x, 0.5, True),
    "feature_dropout_": lambda x: torch.feature_dropout_(x.expand(2, 3) + 1, 0.5, True),
    "feature_alpha_dropout_": lambda x: torch.feature_alpha_dropout_(x.expand(2, 3) + 1, 0.5, True),
    **{name: lambda x, name=name: getattr(torch.ops.aten, name)(x) for name in (
        "hardsigmoid_", "hardswish_", "hardtanh_", "mish_", "relu_", "relu6_", "silu_")},
}
_MORE_OPERANDS = {
    1: ("add", "clamp_max", "clamp_min", "div", "maximum", "minimum", "mul", "pow", "sub"),
    2: ("addcdiv", "addcmul", "lerp"),
}


def _list_marked():
    return {name for names in PUBLIC.values() for name, function in names.items()
            if hasattr(function, "writes_by_operators")}


def test_what_writes_by_recorded_parts_is_tested():
    assert set(_BY_PARTS) == {name for name in _list_marked() if not name.startswith("_foreach")}


@pytest.mark.parametrize("name", sorted(n for n in _list_marked() if n.startswith("_foreach")))
def test_writes_to_lists_are_recorded_by_their_parts(name):
    more = next((n for n, names in _MORE_OPERANDS.items() if name[9:-1] in names), 0)

    def step(x):
        y = x + 1
        getattr(torch, name)([y], *[[x + 2]] * more)
        return y

    trace = capture(step, (torch.tensor([0.125, 0.25, 0.5]),), {})[1]
    assert not [event.name for event in trace.events if event.kind is CALL]
    assert not trace.problems


@pytest.mark.parametrize("name", sorted(_BY_PARTS))
def test_writes_in_place_are_recorded_by_their_parts(name):
    """Were one recorded as a call, a deferred recording would have run it on no values."""
    trace = capture(lambda x: _BY_PARTS[name](x), (torch.tensor([-1.0, 0.25, 2.0]),), {})[1]
    assert not [event.name for event in trace.events if event.kind is CALL]
    assert not trace.problems


def test_functions_of_shapes_wrap_arrays_themselves():
    names = {code.co_name for code in SHAPE_ONLY}
    assert {"_drop_without_drawing", "create_fill_value", "pdist", "_scalar_source",
            "_zeros"} <= names
    assert all("wrap" in code.co_names for code in SHAPE_ONLY)


def test_distances_of_all_pairs_are_captured():
    def make():
        return lambda x: F.pdist(x), dict

    both(make, lambda i: (torch.randn(5, 3),))


def test_lines_and_modules_are_noted():
    net = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    trace = capture(lambda x: net(x).sum().backward(), (torch.ones(2, 8),), {})[1]
    linear = next(e for e in trace.events if e.name == "linear")
    assert linear.module == "Sequential.0"
    assert Path(linear.line.split(":")[0]).name == "test_capture.py"
    assert any(e.backward for e in trace.events)
    assert np.isfinite(linear.results[0].offset)


def test_library_functions_that_look_at_values_or_make_arrays():
    def make():
        def step(x):
            image = x[None, None]
            mask = x.sum(1) > 100
            weights = F.scaled_dot_product_attention(x[None], x[None], x[None], mask[None, None])
            return (
                F.interpolate(image, scale_factor=2, mode="bilinear"), weights,
                F.adaptive_avg_pool2d(image, 3), x.repeat_interleave(2, 1),
                F.one_hot(x.argmax(1), 6), F.cosine_similarity(x, x * 0, 1),
            )

        return step, dict

    both(make, lambda i: (torch.randn(5, 6),))


def test_batches_cut_from_one_memory():
    data = torch.randn(40, 6)

    def step(x, y):
        return (x * 2 + y).sum(0)

    fast = compiled(step)
    for i in range(6):
        x, y = data[4 * i : 4 * i + 4], data[4 * i + 1 : 4 * i + 5]
        same(fast(x, y), step(x, y))
    assert runs(fast) >= 2
    other = torch.randn(4, 6)
    same(fast(data[:4], other), step(data[:4], other))  # further apart than before


def test_batches_cut_from_one_memory_and_written():
    def step(x):
        x.mul_(0.5)
        return x.sum()

    fast = compiled(step)
    first, second = torch.ones(40, 6), torch.ones(40, 6)
    for i in range(8):
        same(fast(first[4 * i : 4 * i + 4]), step(second[4 * i : 4 * i + 4]))
        same(first, second)
    assert runs(fast) >= 2


def test_a_recording_lets_go_of_what_the_step_lets_go_of():
    """A long chain takes as much memory recorded as it does unrecorded."""
    import tracemalloc

    from flambeau.compiler.capture.capture import capture

    def chain(x):
        for _ in range(50):
            x = x * 1.0001
        return x

    x = torch.ones(1 << 19)
    for values in (False, True):
        chain(x)
        tracemalloc.start()
        _, trace = capture(chain, (x,), {}, values)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert trace is not None
        assert len({e.results[0].storage for e in trace.events}) == 50
        assert peak < 8 * x.nbytes


def test_other_threads_make_tuples_meanwhile():
    """Whoever records looks at all objects there are, and holds none that is being made."""
    over, wrong = threading.Event(), []

    def work():
        try:
            while not over.is_set():
                tuple(i for i in range(2000))
        except SystemError as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    mine, interval = torch.zeros(3), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # whoever can be disturbed is
    try:
        for thread in threads:
            thread.start()
        results = [any(tensor is mine for tensor in find_live_tensors()) for _ in range(8)]
    finally:
        sys.setswitchinterval(interval)
        over.set()
        for thread in threads:
            thread.join()
    assert all(results)
    assert not wrong


@pytest.mark.parametrize("period", [2, 3])
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("mode", ["now", None])
def test_gradients_accumulated_over_some_calls(period, inside, mode):
    """Calls that find grads are of another kind than those that find none."""

    def trained(wrap):
        torch.manual_seed(0)
        net = nn.Linear(8, 4)
        optimizer = torch.optim.Adam(net.parameters(), 0.01)

        def micro(x, y, last):
            loss = classify(net, x, y) / period
            loss.backward()
            if inside and last:
                optimizer.step()
                optimizer.zero_grad()
            return loss.detach()

        step, results = wrap(micro), []
        for i in range(60):
            last = i % period == period - 1
            results.append(step(torch.randn(6, 8), torch.randint(0, 4, (6,)), inside and last))
            if last and not inside:
                optimizer.step()
                optimizer.zero_grad()
            if isinstance(step, Compiled):
                for build in step._specializations.list_builds():
                    build.done.wait(120)
        return results, step

    actual, step = trained(lambda f: torch.compile(f, mode=mode, fullgraph=True))
    same(actual, trained(lambda f: f)[0], 1e-4)
    assert runs(step) >= 20
    assert len(step._programs) == 2 if not inside else len(step._programs) >= 2


@pytest.mark.parametrize("options", [{}, {"backend": "evaluate"}])
@pytest.mark.parametrize("keep", [
    lambda g: g, lambda g: g.detach(), lambda g: g.view(-1)[1:], lambda g: g.numpy(),
    lambda g: g.t(),
], ids=["grad", "detach", "view", "numpy", "transposed"])
def test_gradients_that_somebody_holds_stay_as_they_were(keep, options):
    """Each eager step makes new ones."""

    def train(wrap):
        torch.manual_seed(0)
        net = nn.Linear(8, 4)
        step = wrap(trainer(net, torch.optim.SGD(net.parameters(), 0.1), classify))
        results = []
        for i in range(12):
            step(torch.randn(6, 8), torch.randint(0, 4, (6,)))
            if i % 4 != 3:
                results.append(keep(net.weight.grad))
        return [torch.as_tensor(g) for g in results], net, step

    actual, net, step = train(lambda f: torch.compile(f, mode="now", **options))
    wanted, twin, _ = train(lambda f: f)
    same(actual, wanted, 1e-4)
    same(net.weight.grad, twin.weight.grad, 1e-4)
    assert runs(step) >= 8


def test_gradients_that_nobody_holds_stay_where_they_are():
    net = nn.Linear(8, 4)
    step = torch.compile(trainer(net, torch.optim.SGD(net.parameters(), 0.1), classify), mode="now")
    places = []
    for i in range(10):
        step(*_batch(i))
        places.append((net.weight.grad.norm().item(), net.weight.grad.data_ptr())[1])
    assert len(set(places[4:])) == 1


def test_forward_over_reverse_transforms_while_recorded():
    """Tangents that vmap describes by a window of no memory reach a backward pass."""
    def step(x):
        return torch.func.hessian(lambda v: (v ** 3).sum())(x)

    x = torch.tensor([1.0, 2.0])
    for mode in ("now", "default"):
        compiled_step = torch.compile(step, mode=mode)
        for _ in range(4):
            assert torch.equal(compiled_step(x), step(x))


@pytest.mark.parametrize("name", ["a level", "a Jacobian"])
def test_stubs_of_forward_mode_hold_no_recording(name):
    """They begin above those of the recording, which ends before them."""
    def level(x):
        with torch.autograd.forward_ad.dual_level():
            y = torch.autograd.forward_ad.make_dual(x, x) * 2
            return torch.autograd.forward_ad.unpack_dual(y).tangent

    function = {"a level": level, "a Jacobian": torch.func.hessian(lambda x: (x**3).sum())}[name]
    bystander = torch.ones(2)
    reference = weakref.ref(bystander)
    capture(function, (torch.ones(2),), {})
    del bystander
    gc.collect()
    assert reference() is None
