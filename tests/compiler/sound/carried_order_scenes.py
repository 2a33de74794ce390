"""Steps that replace tensors in some order, in some calls, with gradients, or amid others."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .carried_scenes import Holder, copy_tensor, replace, scene
from .scenario import Scene


# ------------------------------------------------------------------------ order and branches


@scene
def read_after_a_write() -> Scene:
    m = Holder(h=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        m.h = m.h + x
        m.h = m.h * 0.5
        y = m.h.sum()
        m.h = torch.tanh(m.h)
        return y

    return Scene(step, lambda: m.h.add_(1), log=[vars(m)])


@scene
def written_before_a_read() -> Scene:
    m = Holder(h=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        m.h = x * 2
        return (m.h + 1).sum()

    return Scene(step, lambda: delattr(m, "h"), log=[vars(m)])


@scene
def deleted_and_set() -> Scene:
    m = Holder(h=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        h = m.h
        del m.h
        m.h = torch.tanh(h + x)
        return m.h.sum()

    return Scene(step, lambda: m.h.add_(1), log=[vars(m)])


@scene
def written_in_place_and_replaced() -> Scene:
    m, old = Holder(h=torch.zeros(4, 3)), []

    def step(x: Any) -> Any:
        m.h.add_(x)
        m.h = torch.tanh(m.h)
        return m.h.sum()

    def arguments() -> tuple:
        old.append(m.h)
        return (torch.randn(4, 3),)

    return Scene(step, lambda: m.h.mul_(2), arguments, log=[old, vars(m)])


@scene
def versions_of_old_values() -> Scene:
    m, old, log = Holder(h=torch.zeros(4, 3)), [], []

    def step(x: Any) -> Any:
        m.h.add_(x)
        m.h.mul_(2)
        m.h = torch.tanh(m.h)
        return m.h.sum()

    def arguments() -> tuple:
        old.append(m.h)
        log.append([h._version for h in old])
        return (torch.randn(4, 3),)

    return Scene(step, lambda: m.h.mul_(2), arguments, log=log)


@scene
def replaced_in_some_calls() -> Scene:
    m = Holder(h=torch.zeros(4, 3), on=True)

    def step(x: Any) -> Any:
        if m.on:
            m.h = torch.tanh(m.h + x)
        return m.h.sum()

    return Scene(step, lambda: setattr(m, "on", False), log=[vars(m)])


@scene
def replaced_every_other_call() -> Scene:
    m = Holder(h=torch.zeros(4, 3), n=0)

    def step(x: Any) -> Any:
        m.n += 1
        if m.n % 2:
            m.h = torch.tanh(m.h + x)
        else:
            m.h.add_(1)
        return m.h.sum()

    return Scene(step, lambda: setattr(m, "n", 3), log=[vars(m)])


@scene
def none_at_first() -> Scene:
    m = Holder(h=None)

    def step(x: Any) -> Any:
        if m.h is None:
            m.h = torch.zeros_like(x)
        m.h = torch.tanh(m.h + x)
        return m.h.sum()

    return Scene(step, lambda: setattr(m, "h", None), log=[vars(m)])


@scene
def absent_at_first() -> Scene:
    m = Holder()

    def step(x: Any) -> Any:
        if not hasattr(m, "h"):
            m.h = torch.zeros_like(x)
        m.h = torch.tanh(m.h + x)
        return m.h.sum()

    return Scene(step, lambda: delattr(m, "h"), log=[vars(m)])


@scene
def growing() -> Scene:
    m = Holder(h=torch.zeros(0, 3))

    def step(x: Any) -> Any:
        m.h = torch.cat([m.h, x])
        return m.h.sum(), m.h.shape[0]

    return Scene(step, lambda: setattr(m, "h", torch.ones(2, 3)), log=[vars(m)])


@scene
def growing_without_gradients() -> Scene:
    m = Holder(h=torch.zeros(1, 3))

    @torch.no_grad()
    def step(x: Any) -> Any:
        m.h = torch.cat([m.h, x[:1]])
        return (x @ m.h.T).softmax(1) @ m.h

    return Scene(step, lambda: setattr(m, "h", torch.ones(2, 3)), log=[vars(m)])


@scene
def batches_of_two_shapes() -> Scene:
    m, n = Holder(h=torch.zeros(3)), [0]

    def step(x: Any) -> Any:
        m.h = m.h * 0.9 + x.mean(0) * 0.1
        return m.h

    def arguments() -> tuple:
        n[0] += 1
        return (torch.randn(4 if n[0] % 2 else 2, 3),)

    return Scene(step, lambda: m.h.zero_(), arguments, log=[vars(m)])


@scene
def an_error_before_the_store() -> Scene:
    m, labels = Holder(h=torch.zeros(4, 3)), torch.tensor([0, 1, 2, 0])

    def step(x: Any) -> Any:
        y = m.h + x
        loss = F.cross_entropy(y, labels)
        m.h = torch.tanh(y)
        return loss

    def arguments() -> tuple:
        labels[1] = 1
        return (torch.randn(4, 3),)

    def change() -> None:
        labels[0] = 7

    return Scene(step, change, arguments, log=[vars(m)])


@scene
def an_error_of_shapes() -> Scene:
    m = Holder(a=torch.zeros(4, 3), b=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        m.a = torch.tanh(m.a + x)
        m.b = m.b + m.a
        return m.b.sum()

    return Scene(step, lambda: setattr(m, "b", torch.zeros(5, 7)), log=[vars(m)])


# ------------------------------------------------------------------------------- gradients


@scene
def a_state_that_is_not_detached() -> Scene:
    w, m, log = torch.randn(3, 3, requires_grad=True), Holder(h=torch.zeros(4, 3)), []

    def step(x: Any) -> Any:
        m.h = torch.tanh(x + m.h @ w)
        return m.h.sum()

    def change() -> None:
        w.grad = None
        m.h.sum().backward()
        log.append(copy_tensor(w.grad))
        m.h = m.h.detach()

    return Scene(step, lambda: change() if m.h.requires_grad else None, state=[w], log=log)


@scene
def backward_within_without_detaching() -> Scene:
    w, m, log = torch.randn(3, 3, requires_grad=True), Holder(h=torch.zeros(4, 3)), []

    def step(x: Any) -> Any:
        try:
            m.h = torch.tanh(x + m.h @ w)
            m.h.sum().backward()
        except RuntimeError as error:
            log.append(str(error)[:40])
        return m.h.detach().sum()

    return Scene(step, lambda: setattr(m, "h", torch.zeros(4, 3)), state=[w], log=log)


@scene
def truncated_propagation() -> Scene:
    w, m = torch.randn(3, 3, requires_grad=True), Holder(h=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        w.grad = None
        h = torch.tanh(x + m.h @ w)
        loss = h.square().mean()
        loss.backward()
        with torch.no_grad():
            w.sub_(0.1 * w.grad)
        m.h = h.detach()
        return loss.detach()

    return Scene(step, lambda: m.h.requires_grad_(), state=[w], log=[vars(m)])


@scene
def a_live_result_and_a_state() -> Scene:
    w, m, log = torch.randn(3, 3, requires_grad=True), Holder(h=torch.zeros(4, 3)), []

    def step(x: Any) -> Any:
        y = torch.tanh(x + m.h @ w)
        m.h = y.detach()
        return y.square().sum()

    def change() -> None:
        w.grad = None
        y = step(torch.ones(4, 3))
        y.backward()
        log.append(copy_tensor(w.grad))

    return Scene(step, change, state=[w], log=log)


@scene
def a_leaf_replaced() -> Scene:
    m = Holder(w=torch.randn(3, 3, requires_grad=True))

    def step(x: Any) -> Any:
        loss = (x @ m.w).square().mean()
        g, = torch.autograd.grad(loss, m.w)
        m.w = (m.w - 0.1 * g).detach().requires_grad_()
        return loss.detach()

    return Scene(step, lambda: setattr(m, "w", m.w.detach() * 2), log=[vars(m)])


@scene
def a_leaf_replaced_after_backward() -> Scene:
    m = Holder(w=torch.randn(3, 3, requires_grad=True))

    def step(x: Any) -> Any:
        loss = (x @ m.w).square().mean()
        loss.backward()
        m.w = (m.w - 0.1 * m.w.grad).detach().requires_grad_()
        return loss.detach()

    return Scene(step, lambda: setattr(m.w, "grad", torch.ones(3, 3)), log=[vars(m)])


@scene
def an_average_of_weights() -> Scene:
    net = nn.Linear(3, 2)
    average = {name: p.detach().clone() for name, p in net.named_parameters()}

    def step(x: Any) -> Any:
        net.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        with torch.no_grad():
            for name, p in net.named_parameters():
                p -= 0.1 * p.grad
                average[name] = average[name] * 0.9 + p * 0.1
        return loss.detach()

    return Scene(step, lambda: average.update(bias=net.bias.detach()), state=[*net.parameters()],
                 log=[average])


@scene
def replaced_data() -> Scene:
    net = nn.Linear(3, 2)

    def step(x: Any) -> Any:
        net.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        for p in net.parameters():
            p.data = p.data - 0.1 * p.grad
        return loss.detach()

    return Scene(step, lambda: net.weight.data.zero_(), state=[*net.parameters()])


@scene
def the_last_gradient() -> Scene:
    w, m = torch.randn(3, 3, requires_grad=True), Holder(g=torch.zeros(3, 3))

    def step(x: Any) -> Any:
        loss = (x @ w).square().mean()
        g, = torch.autograd.grad(loss, w)
        with torch.no_grad():
            w.sub_(0.1 * g + 0.05 * m.g)
        m.g = g
        return loss.detach()

    return Scene(step, lambda: m.g.zero_(), state=[w], log=[vars(m)])


@scene
def without_gradients_at_times() -> Scene:
    m, w, n = Holder(h=torch.zeros(4, 3)), torch.randn(3, 3, requires_grad=True), [0]

    def step(x: Any) -> Any:
        y = torch.tanh(x + m.h @ w)
        m.h = y.detach()
        return y.sum()

    def arguments() -> tuple:
        n[0] += 1
        torch.set_grad_enabled(n[0] % 3 != 0)
        return (torch.randn(4, 3),)

    def change() -> Callable[[], None]:
        def restore() -> None:
            torch.set_grad_enabled(True)
        return restore

    return Scene(step, change, arguments, log=[vars(m)])


@scene
def in_inference_mode_at_times() -> Scene:
    m, n = Holder(h=torch.zeros(4, 3)), [0]

    def step(x: Any) -> Any:
        with torch.inference_mode(n[0] % 3 == 0):
            n[0] += 1
            m.h = torch.tanh(x + m.h)
        return m.h.is_inference()

    return Scene(step, lambda: setattr(m, "h", torch.ones(4, 3)), log=[vars(m)])


# ------------------------------------------------------------------------- around the calls


@scene
def the_old_value_dies() -> Scene:
    m, log = Holder(h=torch.zeros(4, 3)), []
    references: list[Any] = []

    def step(x: Any) -> Any:
        m.h = torch.tanh(m.h + x)
        return m.h.sum()

    def arguments() -> tuple:
        log.append([r() is None for r in references[:-3]])
        references.append(weakref.ref(m.h))
        return (torch.randn(4, 3),)

    return Scene(step, lambda: None, arguments, log=log)


@scene
def another_thread() -> Scene:
    m = Holder(h=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        m.h = torch.tanh(m.h + x)
        return m.h.sum()

    def change() -> None:
        thread = threading.Thread(target=lambda: replace(m, torch.ones(4, 3)))
        thread.start()
        thread.join()

    return Scene(step, change, log=[vars(m)])


@scene
def another_function_with_the_state() -> Scene:
    m = Holder(h=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        m.h = torch.tanh(m.h + x)
        return m.h.sum()

    other = torch.compile(lambda x: setattr(m, "h", m.h * 0.5 + x), mode="now")

    def arguments() -> tuple:
        other(torch.ones(4, 3))
        return (torch.randn(4, 3),)

    return Scene(step, lambda: m.h.zero_(), arguments, log=[vars(m)])


@scene
def called_eagerly_in_between() -> Scene:
    m = Holder(h=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        m.h = torch.tanh(m.h + x)
        return m.h.sum()

    return Scene(step, lambda: step(torch.ones(4, 3)), log=[vars(m)])


@scene
def replaced_between_all_calls() -> Scene:
    m = Holder(batch=torch.zeros(4, 3))

    def step() -> Any:
        return (m.batch * 2).sum()

    def arguments() -> tuple:
        m.batch = torch.randn(4, 3)
        return ()

    return Scene(step, lambda: None, arguments)


@scene
def replaced_by_views_between_calls() -> Scene:
    m, data, n = Holder(batch=torch.zeros(4, 3)), torch.randn(48, 3), [0]

    def step() -> Any:
        m.batch.mul_(2)
        return m.batch.sum() + data[0].sum()

    def arguments() -> tuple:
        m.batch = data[n[0] : n[0] + 4]
        n[0] += 4
        return ()

    return Scene(step, lambda: None, arguments, log=[data])


@scene
def random_numbers() -> Scene:
    m = Holder(x=torch.zeros(5, 3))

    def step(x: Any) -> Any:
        new = m.x + 0.1 * torch.randn_like(m.x)
        accept = torch.rand(5) < torch.exp(m.x.square().sum(1) - new.square().sum(1))
        m.x = torch.where(accept[:, None], new, m.x)
        return m.x.mean() + x.mean()

    return Scene(step, lambda: torch.manual_seed(7), log=[vars(m)])


@scene
def lloyds_algorithm() -> Scene:
    data, c = torch.randn(20, 2), [torch.randn(3, 2)]

    def step(x: Any) -> Any:
        nearest = torch.cdist(data, c[0]).argmin(1)
        sums = torch.zeros_like(c[0]).index_add_(0, nearest, data)
        counts = torch.zeros(3).index_add_(0, nearest, torch.ones(20))
        c[0] = sums / counts.clamp(min=1)[:, None]
        return c[0]

    return Scene(step, lambda: data.add_(1), log=[c])


@scene
def a_number_and_a_tensor() -> Scene:
    m = Holder(h=torch.zeros(4, 3), n=0, total=0.0)

    def step(x: Any) -> Any:
        m.n += 1
        m.h = torch.tanh(m.h + x)
        loss = m.h.sum()
        m.total += loss.item()
        return loss

    return Scene(step, lambda: setattr(m, "n", 10), log=[vars(m)])


@scene
def a_half_precision_region() -> Scene:
    m = Holder(h=torch.zeros(4, 3), w=torch.randn(3, 3))

    def step(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            m.h = torch.tanh(x @ m.w + m.h @ m.w)
        return m.h.float().sum()

    return Scene(step, lambda: setattr(m, "h", m.h.float()))


@scene
def a_tensor_that_enters_the_graph() -> Scene:
    m, w = Holder(h=torch.zeros(4, 3)), torch.ones(3, requires_grad=True)

    def step(x: Any) -> Any:
        m.h = (m.h * 0.5 + x).detach()
        return (m.h * w).sum()

    def change() -> None:
        m.h.mul_(w)

    return Scene(step, change, state=[w], log=[vars(m)])


@scene
def a_bare_reference_to_the_state() -> Scene:
    m = Holder(h=torch.zeros(4, 3))
    m.ref = weakref.ref(m.h)

    def step(x: Any) -> Any:
        known = m.ref()
        y = 0 if known is None else known.sum()
        m.h = torch.tanh(m.h + x)
        m.ref = weakref.ref(m.h)
        return y

    return Scene(step, lambda: m.h.add_(1), log=[vars(m)["h"]])


@scene
def a_tensor_in_a_set() -> Scene:
    m = Holder(h=torch.zeros(4, 3), seen=set())

    def step(x: Any) -> Any:
        known = m.h in m.seen
        m.h = torch.tanh(m.h + x)
        return m.h.sum(), known

    return Scene(step, lambda: m.seen.add(m.h), log=[m.h])
