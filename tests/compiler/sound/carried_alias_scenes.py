"""Steps that take over tensors in tuples, lists and dicts, and tensors that alias others."""

from __future__ import annotations

from typing import Any, NamedTuple

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .carried_scenes import Holder, scene
from .scenario import Scene


# ------------------------------------------------------------------------------- structures


@scene
def a_pair() -> Scene:
    m = Holder(state=(torch.zeros(4, 3), torch.zeros(4, 3)))

    def step(x: Any) -> Any:
        h, c = m.state
        c = 0.5 * c + x
        h = torch.tanh(h + c)
        m.state = (h, c)
        return h.sum()

    return Scene(step, lambda: setattr(m, "state", [*m.state]), log=[vars(m)])


@scene
def a_pair_with_a_longer_part() -> Scene:
    m = Holder(state=(torch.zeros(4, 3), torch.zeros(4, 3)))

    def step(x: Any) -> Any:
        h, c = m.state
        m.state = (torch.tanh(h + c), 0.5 * c + x)
        return h.sum()

    return Scene(step, lambda: setattr(m, "state", (torch.ones(3), m.state[1])), log=[vars(m)])


@scene
def an_lstm() -> Scene:
    net, head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 1)
    parameters = [*net.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    m = Holder(state=None)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        y, state = net(x.unsqueeze(0), m.state)
        m.state = tuple(s.detach() for s in state)
        loss = head(y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Scene(step, lambda: setattr(m, "state", None), state=parameters, log=[vars(m)])


class State(NamedTuple):
    """Mean and covariance."""

    mean: Any
    covariance: Any


@scene
def a_kalman_filter() -> Scene:
    m = Holder(s=State(torch.zeros(3), torch.eye(3)))
    a, q = torch.eye(3) * 0.9, torch.eye(3) * 0.1

    def step(x: Any) -> Any:
        mean, p = a @ m.s.mean, a @ m.s.covariance @ a.T + q
        gain = p @ torch.linalg.inv(p + torch.eye(3))
        mean = mean + gain @ (x[0] - mean)
        m.s = State(mean, p - gain @ p)
        return mean.sum()

    return Scene(step, lambda: setattr(m, "s", m.s._replace(mean=torch.ones(3))), log=[vars(m)])


@scene
def a_replaced_field() -> Scene:
    m = Holder(s=State(torch.zeros(3), torch.eye(3)))

    def step(x: Any) -> Any:
        m.s = m.s._replace(mean=m.s.mean * 0.5 + x.mean(0))
        return m.s.mean.sum()

    return Scene(step, lambda: setattr(m, "s", State(torch.ones(3), torch.eye(3))), log=[vars(m)])


@scene
def a_new_list() -> Scene:
    m = Holder(hs=[torch.zeros(4, 3), torch.ones(4, 3)])

    def step(x: Any) -> Any:
        m.hs = [torch.tanh(h + x) for h in m.hs]
        return m.hs[0].sum()

    return Scene(step, lambda: m.hs.append(torch.ones(4, 3)), log=[vars(m)])


@scene
def a_new_dict() -> Scene:
    m = Holder(state={"a": torch.zeros(3), "b": torch.ones(3)})

    def step(x: Any) -> Any:
        m.state = {key: 0.5 * h + x.mean(0) for key, h in m.state.items()}
        return m.state["a"].sum()

    return Scene(step, lambda: m.state.update(c=torch.ones(3)), log=[vars(m)])


@scene
def a_list_at_two_places() -> Scene:
    hs = [torch.zeros(4, 3)]
    m = Holder(a=hs, b=hs)

    def step(x: Any) -> Any:
        m.a = [torch.tanh(m.a[0] + x)]
        return (m.a[0] - m.b[0]).sum()

    return Scene(step, lambda: setattr(m, "b", m.a), log=[vars(m)])


@scene
def a_dict_of_weights() -> Scene:
    m = Holder(w={"a": torch.randn(3, 3), "b": torch.randn(3)})

    def step(x: Any) -> Any:
        w = {key: value.detach().requires_grad_() for key, value in m.w.items()}
        loss = F.linear(x, w["a"], w["b"]).square().mean()
        grads = torch.autograd.grad(loss, list(w.values()))
        m.w = {key: (value - 0.1 * g).detach()
               for (key, value), g in zip(w.items(), grads, strict=True)}
        return loss.detach()

    return Scene(step, lambda: m.w["a"].zero_(), log=[vars(m)])


# --------------------------------------------------------------------------------- aliases


@scene
def an_argument_kept() -> Scene:
    m, x = Holder(last=torch.zeros(4, 3)), torch.randn(4, 3)

    def step(x: Any) -> Any:
        y = (x - m.last).sum()
        m.last = x
        return y

    return Scene(step, lambda: x.add_(1), lambda: (x,), log=[vars(m)])


@scene
def an_argument_kept_and_written() -> Scene:
    m, xs = Holder(last=torch.zeros(4, 3)), [torch.randn(4, 3), torch.randn(4, 3)]

    def step(x: Any) -> Any:
        x.mul_(0.5)
        y = (x - m.last).sum()
        m.last = x
        return y

    def arguments() -> tuple:
        return (xs[0],)

    return Scene(step, xs.reverse, arguments, log=[vars(m), xs])


@scene
def the_argument_is_the_state() -> Scene:
    m, x = Holder(h=torch.zeros(4, 3)), torch.randn(4, 3)

    def step(x: Any) -> Any:
        m.h.add_(1)
        m.h = m.h * 0.5 + x
        return m.h.sum()

    return Scene(step, lambda: setattr(m, "h", x), lambda: (x,), log=[vars(m), x])


@scene
def a_view_of_the_argument_is_the_state() -> Scene:
    m, x = Holder(h=torch.zeros(1, 3)), torch.randn(4, 3)

    def step(x: Any) -> Any:
        m.h.add_(1)
        m.h = m.h * 0.5 + x.mean(0, keepdim=True)
        return m.h.sum()

    return Scene(step, lambda: setattr(m, "h", x[1:2]), lambda: (x,), log=[vars(m), x])


@scene
def a_written_parameter_is_the_state() -> Scene:
    w = torch.randn(4, 3)
    m = Holder(h=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        w.mul_(0.9)
        m.h = m.h * 0.5 + w + x
        return m.h.sum()

    return Scene(step, lambda: setattr(m, "h", w), log=[vars(m), w])


@scene
def one_tensor_at_two_places() -> Scene:
    m = Holder(a=torch.zeros(4, 3), b=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        m.a.add_(1)
        y = (m.a * m.b).sum()
        m.a, m.b = m.a * 0.5 + x, m.b * 0.5
        return y

    return Scene(step, lambda: setattr(m, "b", m.a), log=[vars(m)])


@scene
def always_one_tensor_at_two_places() -> Scene:
    m = Holder()
    m.a = m.b = torch.zeros(4, 3)

    def step(x: Any) -> Any:
        m.a.add_(1)
        y = (m.a * m.b).sum()
        m.a = m.b = m.a * 0.5 + x
        return y

    return Scene(step, lambda: setattr(m, "b", m.a.clone()), log=[vars(m)])


@scene
def whether_two_places_hold_one_tensor() -> Scene:
    m = Holder(a=torch.zeros(4, 3), b=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        same = m.a is m.b
        m.a, m.b = m.a * 0.5 + x, m.b * 0.5 + 1
        return m.a.sum(), same

    return Scene(step, lambda: setattr(m, "b", m.a), log=[vars(m)])


@scene
def a_view_of_another_state() -> Scene:
    m = Holder(a=torch.zeros(4, 3), b=torch.zeros(2, 3))

    def step(x: Any) -> Any:
        m.a.add_(1)
        y = m.b.sum()
        m.a, m.b = m.a * 0.5 + x, m.b * 0.5
        return y

    return Scene(step, lambda: setattr(m, "b", m.a[1:3]), log=[vars(m)])


@scene
def a_swap() -> Scene:
    m = Holder(a=torch.zeros(4, 3), b=torch.ones(4, 3))

    def step(x: Any) -> Any:
        m.a, m.b = m.b, torch.tanh(m.a + x)
        return m.a.sum()

    return Scene(step, lambda: m.a.add_(1), log=[vars(m)])


@scene
def the_old_value_returned() -> Scene:
    m = Holder(h=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        old = m.h
        m.h = torch.tanh(old + x)
        return old

    return Scene(step, lambda: m.h.add_(1), log=[vars(m)])


@scene
def a_history() -> Scene:
    m, history = Holder(h=torch.zeros(4, 3)), [torch.zeros(4, 3)]

    def step(x: Any) -> Any:
        m.h = torch.tanh(m.h + x)
        history.append(m.h)
        return m.h.sum()

    return Scene(step, lambda: history[-1].add_(1), log=[vars(m), history])


@scene
def the_best_so_far() -> Scene:
    m = Holder(h=torch.zeros(4, 3), best=None)

    def step(x: Any) -> Any:
        m.best = m.h
        m.h = torch.tanh(m.h + x)
        return m.best.sum() + m.h.sum()

    return Scene(step, lambda: m.best is not None and m.best.add_(1), log=[vars(m)])


@scene
def a_view_returned_and_written() -> Scene:
    m, views = Holder(h=torch.zeros(4, 3)), []

    def step(x: Any) -> Any:
        m.h = torch.tanh(m.h + x)
        return m.h[0]

    def arguments() -> tuple:
        return (torch.randn(4, 3),)

    s = Scene(step, lambda: views[-1].add_(1) if views else None, arguments, log=[vars(m)])
    return s


@scene
def a_view_kept() -> Scene:
    m = Holder(h=torch.zeros(4, 2))

    def step(x: Any) -> Any:
        big = torch.tanh(torch.cat([m.h, x], 1))
        m.h = big[:, 1:3]
        return m.h.sum()

    return Scene(step, lambda: m.h.add_(1), log=[vars(m)])


@scene
def an_expanded_tensor_kept() -> Scene:
    m = Holder(h=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        m.h = torch.tanh(m.h + x).mean(0).expand(4, 3)
        return m.h.sum()

    return Scene(step, lambda: m.h[0].add_(1), log=[vars(m)])


@scene
def a_detached_alias_kept() -> Scene:
    m = Holder(h=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        y = torch.tanh(m.h + x)
        m.h = y.detach()
        return y

    return Scene(step, lambda: m.h.add_(1), log=[vars(m)])


@scene
def the_same_new_tensor_twice() -> Scene:
    m = Holder(a=torch.zeros(4, 3), b=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        m.a = m.b = torch.tanh(m.a + m.b + x)
        return m.a.sum()

    return Scene(step, lambda: m.a.add_(1), log=[vars(m)])


@scene
def state_shared_with_an_array() -> Scene:
    m, arrays = Holder(h=torch.zeros(4, 3)), []

    def step(x: Any) -> Any:
        m.h = m.h * 0.5 + x
        return m.h.sum()

    def change() -> None:
        arrays.append(m.h.numpy())
        arrays[0][0] = 5

    return Scene(step, change, log=[vars(m)])
