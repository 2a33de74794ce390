"""Steps that take tensors over from the call before, in attributes, entries and variables, and what
may happen to those between two calls."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import flambeau as torch
from flambeau import nn

from .scenario import Scene, collect

SCENES: dict[str, Callable[[], Scene]] = {}
scene = collect(SCENES)


class Holder:
    """An object with attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Sub(torch.Tensor):
    """A subclass without behavior of its own."""


def copy_tensor(x: Any) -> Any:
    """A copy of a tensor as it is now; of anything else its class."""
    dense = isinstance(x, torch.Tensor) and not x.is_sparse
    return x.detach().resolve_conj().clone() if dense else type(x).__name__


def _cell(change: Callable[[Holder], Any], shape: tuple[int, ...] = (4, 3)) -> Scene:
    """A recurrent step on `m.h`, its state after each call logged."""
    m = Holder(h=torch.zeros(shape), w=torch.randn(3, 3) * 0.5)
    log: list[Any] = []

    def step(x: Any) -> Any:
        m.h = torch.tanh(x + m.h @ m.w)
        return m.h.sum()

    def arguments() -> tuple:
        h = vars(m).get("h")
        log.append([copy_tensor(h), getattr(h, "_version", 0), getattr(h, "requires_grad", 0)])
        return (torch.randn(4, 3),)

    return Scene(step, lambda: change(m), arguments, log=log)


def _add_cell_scene(name: str, change: Callable[[Holder], Any]) -> None:
    SCENES[name] = lambda: _cell(change)


def replace(m: Holder, h: Any) -> None:
    """Sets another state."""
    m.h = h


def _hide(m: Holder) -> Callable[[], None]:
    def restore() -> None:
        del Holder.h

    Holder.h = property(lambda self: torch.ones(4, 3), lambda self, value: None)
    return restore


def _fall_back(m: Holder) -> Callable[[], None]:
    def restore() -> None:
        del Holder.h

    Holder.h = torch.full((4, 3), 2.0)
    del m.h
    return restore


for _name, _change in {
    "nothing": lambda m: None,
    "another tensor": lambda m: replace(m, torch.ones(4, 3)),
    "written in place": lambda m: m.h.add_(1),
    "written through data": lambda m: m.h.data.mul_(2),
    "written through numpy": lambda m: m.h.detach().numpy().fill(0.5),
    "another shape": lambda m: replace(m, torch.ones(1, 3)),
    "no dimension": lambda m: replace(m, torch.ones(3)),
    "resized": lambda m: m.h.resize_(1, 3),
    "set to other memory": lambda m: m.h.set_(torch.ones(4, 3)),
    "data replaced": lambda m: setattr(m.h, "data", torch.ones(4, 3)),
    "data of another shape": lambda m: setattr(m.h, "data", torch.ones(1, 3)),
    "requires grad": lambda m: m.h.requires_grad_(),
    "part of a graph": lambda m: replace(m, torch.ones(4, 3, requires_grad=True) * 2),
    "a subclass": lambda m: replace(m, torch.ones(4, 3).as_subclass(Sub)),
    "a parameter": lambda m: replace(m, nn.Parameter(torch.ones(4, 3))),
    "none": lambda m: replace(m, None),
    "a number": lambda m: replace(m, 2.0),
    "doubles": lambda m: replace(m, torch.ones(4, 3, dtype=torch.float64)),
    "columns": lambda m: replace(m, torch.randn(3, 4).T),
    "expanded": lambda m: replace(m, torch.ones(3).expand(4, 3)),
    "a window": lambda m: replace(m, torch.randn(8, 6)[1:5, 2:5]),
    "the weight": lambda m: replace(m, m.w[[0, 1, 2, 0]]),
    "a view of the weight": lambda m: replace(m, m.w[:1]),
    "the same weight": lambda m: (replace(m, m.w), setattr(m, "w", torch.eye(3))),
    "a weight replaced": lambda m: setattr(m, "w", torch.eye(3)),
    "deleted": lambda m: delattr(m, "h"),
    "a property": _hide,
    "an attribute of the class": _fall_back,
    "a tensor of inference mode": lambda m: replace(m, torch.inference_mode()(
        lambda: torch.ones(4, 3))()),
    "a complex tensor": lambda m: replace(m, torch.ones(4, 3, dtype=torch.complex64)),
    "a conjugate": lambda m: replace(m, torch.randn(4, 3, dtype=torch.complex64).conj()),
    "a sparse tensor": lambda m: replace(m, torch.eye(4, 3).to_sparse()),
    "an empty tensor": lambda m: replace(m, torch.ones(0, 3)),
    "a list": lambda m: replace(m, [1.0, 2.0]),
    "a tuple of tensors": lambda m: replace(m, (torch.ones(4, 3),)),
    "a hooked tensor": lambda m: m.h.requires_grad_().register_hook(lambda g: g * 2),
    "a tensor with an attribute": lambda m: setattr(m.h, "note", 1),
    "other space": lambda m: setattr(m, "__dict__", {**vars(m), "h": torch.ones(4, 3)}),
}.items():
    _add_cell_scene(_name, _change)


# --------------------------------------------------------------------------------- places


@scene
def an_entry_of_a_dict() -> Scene:
    state = {"m": torch.zeros(3), "v": torch.ones(3)}

    def step(x: Any) -> Any:
        g = x.mean(0)
        state["m"] = 0.9 * state["m"] + 0.1 * g
        state["v"] = 0.9 * state["v"] + 0.1 * g * g
        return state["m"] / state["v"].sqrt()

    def change() -> None:
        m = state.pop("m")
        state["m"] = m + 1

    return Scene(step, change, log=[state])


@scene
def a_key_deleted() -> Scene:
    state = {"m": torch.zeros(3)}

    def step(x: Any) -> Any:
        state["m"] = state["m"] * 0.5 + x.mean(0)
        return state["m"]

    return Scene(step, state.clear, log=[state])


@scene
def a_dict_rebound() -> Scene:
    m = Holder(state={"m": torch.zeros(3)})

    def step(x: Any) -> Any:
        m.state["m"] = m.state["m"] * 0.5 + x.mean(0)
        return m.state["m"]

    return Scene(step, lambda: setattr(m, "state", {"m": torch.ones(3)}), log=[vars(m)])


@scene
def an_ordered_dict() -> Scene:
    state = OrderedDict(a=torch.zeros(3), b=torch.ones(3))

    def step(x: Any) -> Any:
        for key in state:
            state[key] = state[key] * 0.5 + x.mean(0)
        return state["a"] - state["b"]

    return Scene(step, lambda: state.move_to_end("a"), log=[[*state], state])


@scene
def a_default_dict() -> Scene:
    state: Any = defaultdict(lambda: torch.zeros(3))

    def step(x: Any) -> Any:
        state["a"] = state["a"] * 0.5 + x.mean(0)
        return state["a"]

    return Scene(step, state.clear, log=[state])


@scene
def get_with_a_default() -> Scene:
    state: dict[str, Any] = {}
    key = "h"

    def step(x: Any) -> Any:
        old = state.get(key)
        state["h"] = x if old is None else old * 0.5 + x
        return state["h"].sum()

    return Scene(step, state.clear, log=[state])


@scene
def a_key_tested() -> Scene:
    state: dict[str, Any] = {}

    def step(x: Any) -> Any:
        if "h" not in state:
            state["h"] = torch.zeros(4, 3)
        state["h"] = state["h"] * 0.5 + x
        return state["h"].sum()

    return Scene(step, state.clear, log=[state])


@scene
def entries_of_a_list() -> Scene:
    hs = [torch.zeros(4, 3), torch.ones(4, 3)]

    def step(x: Any) -> Any:
        for i in range(len(hs)):
            hs[i] = torch.tanh(hs[i] + x)
        return hs[-1].sum()

    return Scene(step, lambda: hs.append(torch.ones(4, 3)), log=[hs])


@scene
def a_list_shortened() -> Scene:
    hs = [torch.zeros(4, 3), torch.ones(4, 3)]

    def step(x: Any) -> Any:
        hs[-1] = torch.tanh(hs[-1] + x)
        return hs[-1].sum()

    return Scene(step, lambda: hs.pop(), log=[hs])


@scene
def a_list_turned() -> Scene:
    hs = [torch.zeros(4, 3), torch.ones(4, 3)]

    def step(x: Any) -> Any:
        hs[0] = torch.tanh(hs[0] + x)
        return (hs[0] - hs[1]).sum()

    return Scene(step, hs.reverse, log=[hs])


@scene
def a_variable_of_an_outer_function() -> Scene:
    h = torch.zeros(4, 3)

    def step(x: Any) -> Any:
        nonlocal h
        h = torch.tanh(h + x)
        return h.sum()

    def change() -> None:
        nonlocal h
        h = torch.ones(1, 3)

    return Scene(step, change)


@scene
def a_variable_deleted() -> Scene:
    h = torch.zeros(4, 3)

    def step(x: Any) -> Any:
        nonlocal h
        h = torch.tanh(h + x)
        return h.sum()

    def change() -> None:
        nonlocal h
        del h

    return Scene(step, change)


@scene
def a_global() -> Scene:
    space: dict[str, Any] = {"torch": torch, "h": torch.zeros(4, 3)}
    exec("def step(x):\n    global h\n    h = torch.tanh(h + x)\n    return h.sum()", space)
    return Scene(space["step"], lambda: space.update(h=space["h"] + 1))


@scene
def a_global_deleted() -> Scene:
    space: dict[str, Any] = {"torch": torch, "h": torch.zeros(4, 3)}
    exec("def step(x):\n    global h\n    h = torch.tanh(h + x)\n    return h.sum()", space)
    return Scene(space["step"], lambda: space.pop("h"))


@scene
def an_attribute_of_a_module() -> Scene:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.h = torch.zeros(4, 3)

        def forward(self, x: Any) -> Any:
            self.h = torch.tanh(self.linear(x) + self.h).detach()
            return self.linear(self.h).square().mean()

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def change() -> None:
        net.h = torch.ones(4, 3)
        net.register_buffer("extra", torch.ones(1))

    return Scene(step, change, state=[*net.parameters()], log=[vars(net)["h"]])


@scene
def a_buffer() -> Scene:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            return (x - self.mean).square().mean()

    net = Net()
    return Scene(net, lambda: net.mean.add_(1), log=[net._buffers])


@scene
def an_attribute_that_becomes_a_buffer() -> Scene:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean = torch.zeros(3)

        def forward(self, x: Any) -> Any:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            return (x - self.mean).square().mean()

    net = Net()

    def change() -> None:
        del net.mean
        net.register_buffer("mean", torch.ones(3))

    return Scene(net, change, log=[net._buffers])


@scene
def slots() -> Scene:
    class Slotted:
        __slots__ = ("h",)

    m = Slotted()
    m.h = torch.zeros(4, 3)

    def step(x: Any) -> Any:
        m.h = torch.tanh(m.h + x)
        return m.h.sum()

    return Scene(step, lambda: setattr(m, "h", torch.ones(4, 3)))


@scene
def a_namespace() -> Scene:
    m = SimpleNamespace(h=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        m.h = torch.tanh(m.h + x)
        return m.h.sum()

    return Scene(step, lambda: setattr(m, "h", m.h.double()), log=[vars(m)])


@scene
def a_property_with_a_setter() -> Scene:
    class Owner:
        def __init__(self) -> None:
            self._h = torch.zeros(4, 3)

        @property
        def h(self) -> Any:
            return self._h

        @h.setter
        def h(self, value: Any) -> None:
            self._h = value

    m = Owner()

    def step(x: Any) -> Any:
        m.h = torch.tanh(m.h + x)
        return m.h.sum()

    return Scene(step, lambda: setattr(m, "_h", torch.ones(4, 3)), log=[vars(m)])


@scene
def a_setter_that_logs() -> Scene:
    log: list[Any] = []

    class Owner(Holder):
        def __setattr__(self, name: str, value: Any) -> None:
            log.append(name)
            super().__setattr__(name, value)

    m = Owner(h=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        m.h = torch.tanh(m.h + x)
        return m.h.sum()

    return Scene(step, lambda: setattr(m, "h", torch.ones(4, 3)), log=log)


@scene
def a_setter_that_comes() -> Scene:
    class Owner(Holder):
        pass

    m = Owner(h=torch.zeros(4, 3))

    def step(x: Any) -> Any:
        m.h = torch.tanh(m.h + x)
        return m.h.sum()

    def change() -> None:
        Owner.__setattr__ = lambda self, name, value: object.__setattr__(self, name, value + 1)

    return Scene(step, change, log=[vars(m)])


@scene
def a_reader_that_comes() -> Scene:
    class Owner(Holder):
        pass

    m, log = Owner(h=torch.zeros(4, 3)), []

    def step(x: Any) -> Any:
        m.h = torch.tanh(m.h + x)
        return m.h.sum()

    def read(self: Any, name: str) -> Any:
        log.append(name)
        return object.__getattribute__(self, name)

    return Scene(step, lambda: setattr(Owner, "__getattribute__", read), log=log)


@scene
def builtins_read_and_set() -> Scene:
    m, name = Holder(h=torch.zeros(4, 3)), "h"

    def step(x: Any) -> Any:
        setattr(m, name, torch.tanh(getattr(m, name) + x))
        return vars(m)["h"].sum()

    return Scene(step, lambda: setattr(m, "h", torch.ones(4, 3)), log=[vars(m)])


@scene
def state_by_parameter() -> Scene:
    net = nn.Linear(3, 2)
    state = {p: {"m": torch.zeros_like(p), "v": torch.zeros_like(p)} for p in net.parameters()}

    def step(x: Any) -> Any:
        net.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                s = state[p]
                s["m"] = 0.9 * s["m"] + 0.1 * p.grad
                s["v"] = 0.99 * s["v"] + 0.01 * p.grad**2
                p -= 0.1 * s["m"] / (s["v"].sqrt() + 1e-3)
        return loss.detach()

    def change() -> None:
        state[net.bias] = {"m": torch.ones(2), "v": torch.ones(2)}

    return Scene(step, change, state=[*net.parameters()], log=[[*state.values()]])


@scene
def an_argument_with_state() -> Scene:
    m = Holder(h=torch.zeros(4, 3))

    def step(m: Any, x: Any) -> Any:
        m.h = torch.tanh(m.h + x)
        return m.h.sum()

    return Scene(step, lambda: setattr(m, "h", torch.ones(4, 3)),
                 lambda: (m, torch.randn(4, 3)), log=[vars(m)])


@scene
def other_objects_with_state() -> Scene:
    objects = [Holder(h=torch.zeros(4, 3)), Holder(h=torch.ones(4, 3))]

    def step(m: Any, x: Any) -> Any:
        m.h = torch.tanh(m.h + x)
        return m.h.sum()

    def arguments() -> tuple:
        objects.reverse()
        return objects[0], torch.randn(4, 3)

    return Scene(step, lambda: objects.append(Holder(h=torch.full((4, 3), 0.5))), arguments,
                 log=[[vars(m) for m in objects]])
