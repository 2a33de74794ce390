"""Steps whose Python cannot be skipped: each is to be followed, and to do what it does eagerly.

A scene is a function that makes a Scene; `Scene.log` takes whatever else may be seen.
"""

from __future__ import annotations

import copy
import io
import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .scenario import Scene

SCENES: dict[str, Callable[[], Scene]] = {}


def scene(make: Callable[[], Scene]) -> Callable[[], Scene]:
    """Registers a scene under its name."""
    SCENES[make.__name__.replace("_", " ")] = make
    return make


def training(*layers: Any, lr: float = 0.05, optimizer: Any = torch.optim.SGD) -> tuple[Any, Any]:
    net = nn.Sequential(*(layers or (nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))))
    return net, optimizer(net.parameters(), lr=lr)


def data() -> tuple:
    return torch.randn(5, 3), torch.randint(2, (5,))


# ----------------------------------------------------------------------- values that are read


@scene
def a_print_every_few_steps() -> Scene:
    net, opt = training()
    log: list[Any] = []
    count = itertools.count(1)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        if next(count) % 3 == 0:
            log.append(f"{loss.item():.3f}")
        return loss

    return Scene(step, arguments=data, state=[*net.parameters()], log=log)


@scene
def a_branch_on_the_loss() -> Scene:
    net, opt = training(optimizer=torch.optim.Adam)
    log: list[Any] = []

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        if loss > 0.8:
            log.append("high")
            loss = loss * 2
        loss.backward()
        opt.step()
        return loss.detach()

    return Scene(step, arguments=data, state=[*net.parameters()], log=log)


@scene
def a_read_between_backward_and_update() -> Scene:
    net, opt = training(optimizer=torch.optim.AdamW)
    log: list[Any] = []

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        log.append(round(norm.item(), 2))
        opt.step()
        return loss

    return Scene(step, arguments=data, state=[*net.parameters()], log=log)


@scene
def numpy_and_back() -> Scene:
    w = torch.randn(3, 3)

    def step(x: Any) -> Any:
        y = x @ w
        a = (y * 2).numpy()
        a[0] = 7
        z = torch.from_numpy(a) + 1
        a[1] = 9
        return z, y + 1

    return Scene(step)


@scene
def overwritten_numpy_input() -> Scene:
    buffer = np.zeros((4, 3), np.float32)
    count = itertools.count()

    def step(x: Any) -> Any:
        buffer[:] = x.numpy()
        t = torch.from_numpy(buffer)
        y = t * 2
        buffer[:] = next(count)
        return y + t

    return Scene(step)


@scene
def a_view_of_an_array_that_is_written() -> Scene:
    w = torch.randn(4, 3)
    seen = w.numpy()
    log: list[Any] = []

    def step(x: Any) -> Any:
        w.mul_(0.5)
        w.add_(x)
        log.append(float(seen[0, 0]))
        return w * 2

    return Scene(step, state=[w], log=log)


@scene
def copies_and_pickles() -> Scene:
    w = torch.randn(3, 3)

    def step(x: Any) -> Any:
        y = (x @ w).relu()
        again = pickle.loads(pickle.dumps(y))
        other = copy.deepcopy(y)
        file = io.BytesIO()
        torch.save(y, file)
        file.seek(0)
        return again + 1, other * 2, torch.load(file) - y

    return Scene(step)


@scene
def lists_floats_and_text() -> Scene:
    log: list[Any] = []
    w = torch.randn(3)

    def step(x: Any) -> Any:
        y = (x * w).sum(1)
        log.append(str(y))
        log.append([round(v, 3) for v in y.tolist()])
        log.append(int(y.argmax()))
        log.append(f"{y.max():.3f}")
        return y[y.argmin()]

    return Scene(step, log=log)


@scene
def an_index_that_is_computed() -> Scene:
    table = torch.randn(4, 3)
    n = itertools.count()

    def step(x: Any) -> Any:
        k = x.sum(0).argmax()
        return table[k] + table[next(n) % 4] * x[int(k)]

    return Scene(step)


# --------------------------------------------------------------------- Python that goes its way


@scene
def loops_of_another_length() -> Scene:
    lengths = itertools.cycle([1, 3, 2, 3])

    def step(x: Any) -> Any:
        y = x
        for _ in range(next(lengths)):
            y = torch.tanh(y + x)
        return y

    return Scene(step)


@scene
def iterators_and_generators() -> Scene:
    def numbers() -> Any:
        k = 0.0
        while True:
            k += 0.5
            yield k

    gen = numbers()
    scales = iter([torch.tensor(float(k)) for k in range(1, 100)])

    def step(x: Any) -> Any:
        return x * next(gen) + next(scales)

    return Scene(step)


@scene
def growing_lists() -> Scene:
    sums: list[Any] = []

    def step(x: Any) -> Any:
        sums.append(x.sum(0))
        return torch.stack(sums[-3:]).mean(0)

    return Scene(step, log=sums)


@scene
def an_exception_that_is_caught() -> Scene:
    w = torch.randn(3)
    count = itertools.count()
    log: list[Any] = []

    def step(x: Any) -> Any:
        w.add_(1)
        try:
            if next(count) % 3 == 2:
                raise KeyError("now")
            w.mul_(0.9)
        except KeyError as error:
            log.append(str(error))
        return x * w

    return Scene(step, state=[w], log=log)


@scene
def an_exception_that_leaves() -> Scene:
    net, opt = training()
    count = itertools.count()

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        if next(count) % 3 == 2:
            raise ValueError("after backward")
        opt.step()
        if next(count) % 5 == 2:
            raise ValueError("after the update")
        return loss

    return Scene(step, arguments=data, state=[*net.parameters()])


@scene
def an_operator_that_refuses_its_shapes() -> Scene:
    count = itertools.count()
    w = torch.zeros(3)

    def step(x: Any) -> Any:
        w.add_(1)
        y = x * 2
        if next(count) % 4 == 3:
            y = y @ torch.ones(7)
        return y + w

    return Scene(step, state=[w])


@scene
def an_index_out_of_range() -> Scene:
    table = nn.Embedding(4, 3)
    count = itertools.count()

    def step(x: Any) -> Any:
        ids = torch.tensor([0, 1, 2, 5 if next(count) % 5 == 4 else 3])
        return (table(ids) * x).sum()

    return Scene(step, state=[table.weight])


# ---------------------------------------------------------------------------------- gradients


@scene
def accumulated_gradients() -> Scene:
    net, opt = training(optimizer=torch.optim.Adam)
    count = itertools.count(1)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x), y) / 2
        loss.backward()
        if next(count) % 2 == 0:
            opt.step()
            opt.zero_grad()
        return loss

    return Scene(step, arguments=data, state=[*net.parameters()])


@scene
def hooks_that_come_and_go() -> Scene:
    net, opt = training()
    log: list[Any] = []
    count = itertools.count()

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        out = net(x)
        if next(count) % 2:
            out.register_hook(lambda g: log.append(round(float(g.abs().sum()), 3)))
        loss = F.cross_entropy(out, y)
        loss.backward()
        opt.step()
        return loss

    return Scene(step, arguments=data, state=[*net.parameters()], log=log)


@scene
def a_hook_on_a_parameter() -> Scene:
    net, opt = training()
    calls: list[Any] = []

    def change() -> Any:
        return net[0].weight.register_hook(lambda g: (calls.append(1), g * 2)[1]).remove

    def step(x: Any, y: Any) -> Any:
        calls.append(0)
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    return Scene(step, change, data, [*net.parameters()], calls)


@scene
def a_parameter_that_is_frozen() -> Scene:
    net, opt = training()
    calls: list[Any] = []

    def step(x: Any, y: Any) -> Any:
        calls.append(len(calls))
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    return Scene(step, lambda: net[0].requires_grad_(False), data, [*net.parameters()], calls)


@scene
def detached_now_and_then() -> Scene:
    net, opt = training()
    count = itertools.count()

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        h = net[0](x)
        h = h.detach() if next(count) % 3 == 1 else h
        loss = F.cross_entropy(net[2](torch.tanh(h)), y)
        loss.backward()
        opt.step()
        return loss, loss.grad_fn is None

    return Scene(step, arguments=data, state=[*net.parameters()])


@scene
def a_graph_for_a_later_backward() -> Scene:
    w = nn.Parameter(torch.randn(3))
    losses: list[Any] = []

    def step(x: Any) -> Any:
        losses.append((x * w).tanh().sum())
        if len(losses) == 3:
            sum(losses).backward()
            losses.clear()
            g, w.grad = w.grad, None
            return g
        return losses[-1].detach()

    return Scene(step, state=[w])


@scene
def gradients_of_gradients() -> Scene:
    w = nn.Parameter(torch.randn(3, 3))
    seen: list[Any] = []

    def step(x: Any) -> Any:
        seen.append(len(seen))
        y = (x @ w).tanh().sum()
        (g,) = torch.autograd.grad(y, w, create_graph=True)
        w.grad = None
        (g.square().sum() + y).backward()
        return g.detach()

    return Scene(step, state=[w], log=seen)


@scene
def a_second_backward_is_refused() -> Scene:
    w = nn.Parameter(torch.randn(3))
    count = itertools.count()

    def step(x: Any) -> Any:
        loss = (x * w).exp().sum()
        w.grad = None
        loss.backward()
        if next(count) % 2:
            loss.backward()
        return loss

    return Scene(step, state=[w])


@scene
def functions_of_ones_own() -> Scene:
    w = nn.Parameter(torch.randn(3))
    log: list[Any] = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            log.append(len(log))
            return g * 2

    def step(x: Any) -> Any:
        w.grad = None
        loss = Twice.apply(x * w).sum()
        loss.backward()
        return loss

    return Scene(step, state=[w], log=log)


# --------------------------------------------------------------------- state, views, versions


@scene
def views_and_versions() -> Scene:
    log: list[Any] = []

    def step(x: Any) -> Any:
        y = x * 2
        v = y[1:]
        v.add_(1)
        t = y.t()
        log.append((y._version, v._version, t.stride(), t.is_contiguous(), v.storage_offset(),
                    t._base is y, v.data_ptr() - y.data_ptr()))
        return y, v, t, t.contiguous()

    return Scene(step, log=log)


@scene
def the_same_tensors_again() -> Scene:
    log: list[Any] = []

    def step(x: Any) -> Any:
        log.append(len(log))
        y = x + 1
        return x, y, y, y.view(-1), {"x": x.t(), "y": y[0]}

    return Scene(step, log=log)


@scene
def dropout_and_draws() -> Scene:
    net, opt = training(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    count = itertools.count()

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        x = x + torch.randn(5, 3) * 0.1
        if next(count) % 3 == 1:
            x = x * torch.rand(())
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss, torch.rand(2), torch.randperm(4)

    return Scene(step, arguments=data, state=[*net.parameters()])


@scene
def seeds_and_generator_states() -> Scene:
    count = itertools.count()

    def step(x: Any) -> Any:
        k = next(count)
        if k % 3 == 0:
            torch.manual_seed(k)
        y = x + torch.rand_like(x)
        state = torch.get_rng_state()
        z = torch.randn(2)
        if k % 2:
            torch.set_rng_state(state)
        return y, z, torch.rand(1)

    return Scene(step)


@scene
def running_statistics() -> Scene:
    net, opt = training(nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(),
                        nn.Linear(18, 2))
    log: list[Any] = []

    def step(x: Any, y: Any) -> Any:
        log.append(len(log))
        if len(log) % 4 == 0:
            net.eval()
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        net.train()
        return loss

    return Scene(step, lambda: setattr(net[1], "momentum", 0.5),
                 lambda: (torch.randn(3, 1, 4, 4), torch.randint(2, (3,))),
                 [*net.parameters(), *net.buffers()], log)


@scene
def schedulers_and_rates() -> Scene:
    net, opt = training(optimizer=torch.optim.AdamW)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
    log: list[Any] = []

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        schedule.step()
        log.append(schedule.get_last_lr()[0])
        return loss

    return Scene(step, lambda: opt.param_groups[0].update(weight_decay=0.3), data,
                 [*net.parameters()], log)


@scene
def replaced_parameters() -> Scene:
    net, opt = training()
    log: list[Any] = []

    def change() -> None:
        with torch.no_grad():
            net[0].weight.copy_(torch.ones(4, 3))
        net[2].bias.data = torch.zeros(2)

    def step(x: Any, y: Any) -> Any:
        log.append(len(log))
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    return Scene(step, change, data, [*net.parameters()], log)


@scene
def modes_inside() -> Scene:
    net, _ = training()
    count = itertools.count()

    def step(x: Any) -> Any:
        with torch.no_grad():
            a = net(x)
        with torch.inference_mode(next(count) % 2 == 0):
            b = net(x) + a
        return a.requires_grad, b.requires_grad, b.is_inference(), a + 1

    return Scene(step)


@scene
def two_compiled_functions() -> Scene:
    w = torch.randn(3)

    @torch.compile(mode="now")
    def inner(x: Any) -> Any:
        return (x * w).tanh()

    log: list[Any] = []

    def step(x: Any) -> Any:
        log.append(len(log))
        y = inner(x) + 1
        if y.sum() > 12:
            y = inner(y)
        return y

    return Scene(step, log=log)


@scene
def memory_with_two_names() -> Scene:
    w = torch.zeros(4, 3)
    log: list[Any] = []

    def step(x: Any, y: Any) -> Any:
        log.append(len(log))
        x.add_(1)
        return x + y + w

    def arguments() -> tuple:
        t = torch.randn(4, 3)
        k = len(log) % 3
        return (t, t) if k == 0 else (t, torch.randn(4, 3)) if k == 1 else (w, t)

    return Scene(step, arguments=arguments, state=[w], log=log)


@scene
def shapes_that_change() -> Scene:
    w = torch.randn(3, 2)
    log: list[Any] = []

    def step(x: Any) -> Any:
        log.append(tuple(x.shape))
        return (x @ w).softmax(-1).sum(0)

    return Scene(step, arguments=lambda: (torch.randn(1 + len(log) % 3, 3),), log=log)
