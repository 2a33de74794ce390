"""Steps that call `state_dict()` and `load_state_dict()`: averages, copies, checkpoints."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import flambeau as torch
from flambeau import nn, optim

from .scenario import Scene, collect

SCENES: dict[str, Callable[[], Scene]] = {}
scene = collect(SCENES)


def _build() -> Any:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))


def _pair() -> tuple[Any, Any, Any]:
    net = _build()
    return net, copy.deepcopy(net), optim.SGD(net.parameters(), lr=0.1)


def _descend(net: Any, optimizer: Any, x: Any) -> Any:
    optimizer.zero_grad()
    loss = (net(x) - 1).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def _state(*nets: Any) -> list[Any]:
    return [x for net in nets for x in (*net.parameters(), *net.buffers())]


def _average(change: Callable[[Any, Any], Any]) -> Scene:
    net, average, optimizer = _pair()

    def step(x: Any) -> Any:
        loss = _descend(net, optimizer, x)
        with torch.no_grad():
            old = average.state_dict()
            for name, new in net.state_dict().items():
                if new.dtype.is_floating_point:
                    old[name].mul_(0.75).add_(new, alpha=0.25)
                else:
                    old[name].copy_(new)
        return loss, average(x).detach()

    return Scene(step, lambda: change(net, average), state=_state(net, average))


def _copy(change: Callable[[Any, Any], Any]) -> Scene:
    net, other, optimizer = _pair()

    def step(x: Any) -> Any:
        loss = _descend(net, optimizer, x)
        other.load_state_dict(net.state_dict())
        return loss, other(x).detach()

    return Scene(step, lambda: change(net, other), state=_state(net, other))


def _hook_before(module: Any, prefix: str, keep_vars: bool) -> None:
    module.bias.data.zero_()


def _scale(module: Any, state: Any, prefix: str, metadata: Any) -> None:
    for name in state:
        state[name] = state[name] * 0.5


def _halve(net: Any, other: Any) -> None:
    def save(destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "weight"] = net[0].weight.detach() / 2
        destination[prefix + "bias"] = net[0].bias.detach()

    net[0]._save_to_state_dict = save


def _freeze_buffer(net: Any, other: Any) -> None:
    for module in (net[1], other[1]):
        module._non_persistent_buffers_set.add("running_mean")


def _loaded_halves(net: Any, other: Any) -> None:
    def load(state: Any, prefix: str, *rest: Any) -> None:
        other[0].weight.data.copy_(state[prefix + "weight"] / 2)

    other[0]._load_from_state_dict = load


CHANGES_OF_MODULES: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda net, other: None,
    "a hook before saving": lambda net, other: net[0].register_state_dict_pre_hook(_hook_before),
    "a hook after saving": lambda net, other: net.register_state_dict_post_hook(_scale),
    "a hook that replaces": lambda net, other: net._register_state_dict_hook(
        lambda module, state, prefix, metadata: OrderedDict(
            (name, value + 1) for name, value in state.items())),
    "a hook before loading": lambda net, other: other.register_load_state_dict_pre_hook(
        lambda module, state, *rest: state.update({"0.bias": state["0.bias"] * 0})),
    "a hook after loading": lambda net, other: other[0].register_load_state_dict_post_hook(
        lambda module, keys: module.bias.data.fill_(3)),
    "a buffer that is no longer saved": _freeze_buffer,
    "a method of an object": _halve,
    "a loading method of an object": _loaded_halves,
    "a new layer": lambda net, other: [m.append(nn.Linear(1, 1)) for m in (net, other)],
    "a removed bias": lambda net, other: [m[0].register_parameter("bias", None)
                                         for m in (net, other)],
    "a new parameter": lambda net, other: [setattr(m[0], "weight", nn.Parameter(torch.ones(4, 3)))
                                           for m in (net, other)],
    "a new buffer": lambda net, other: [m.register_buffer("more", torch.ones(2))
                                        for m in (net, other)],
    "a parameter of another name": lambda net, other: net.register_parameter(
        "extra", nn.Parameter(torch.ones(1))),
    "one class of versions": lambda net, other: setattr(net[1], "_version", 1),
}
for _name, _change in CHANGES_OF_MODULES.items():
    SCENES[f"averages, {_name}"] = lambda change=_change: _average(change)
    SCENES[f"copies, {_name}"] = lambda change=_change: _copy(change)


@scene
def checkpoints_in_a_list() -> Scene:
    net, _, optimizer = _pair()
    log: list[Any] = []

    def step(x: Any) -> Any:
        loss = _descend(net, optimizer, x)
        log.append({name: value.clone() for name, value in net.state_dict().items()})
        return loss

    return Scene(step, log.clear, state=_state(net), log=log)


@scene
def states_in_a_list() -> Scene:
    net, _, optimizer = _pair()
    log: list[Any] = []

    def step(x: Any) -> Any:
        loss = _descend(net, optimizer, x)
        log.append(net.state_dict())
        return loss, type(log[-1]).__name__, dict(log[-1]._metadata)

    return Scene(step, log.clear, state=_state(net), log=log)


@scene
def states_that_are_appended_and_not_read() -> Scene:
    net, _, optimizer = _pair()
    states: list[Any] = []
    log: list[Any] = []

    def step(x: Any) -> Any:
        loss = _descend(net, optimizer, x)
        states.append(net.state_dict())
        return loss

    def change() -> None:
        log.extend([type(x).__name__, getattr(x, "_metadata", None)] for x in states)
        states.clear()

    return Scene(step, change, state=_state(net), log=log)


@scene
def a_returned_state() -> Scene:
    net = _build()
    results: list[Any] = []

    class Keep:
        """Notes what the step returned."""

        def __call__(self, x: Any) -> Any:
            state = net.state_dict()
            net[0].weight.data.add_(x.mean())
            return state

    def change() -> None:
        step = Keep()
        state = step(torch.ones(4, 3))
        results.extend([type(state).__name__, [*state], [*state._metadata]])

    def step(x: Any) -> Any:
        state = net.state_dict()
        net[0].weight.data.add_(x.mean())
        return state

    return Scene(step, change, state=_state(net), log=results)


@scene
def a_state_in_an_attribute() -> Scene:
    net, _, optimizer = _pair()
    best = SimpleNamespace(state=None, loss=1.0)
    log: list[Any] = []

    def step(x: Any) -> Any:
        loss = _descend(net, optimizer, x)
        best.state = net.state_dict()
        return loss

    def change() -> None:
        log.append([type(best.state).__name__, [*best.state]])
        log.append([*getattr(best.state, "_metadata", ())])
        best.state = None

    return Scene(step, change, state=_state(net), log=log)


@scene
def a_state_that_is_loaded_on_each_call() -> Scene:
    net, _, optimizer = _pair()
    first = copy.deepcopy(net.state_dict())

    def step(x: Any) -> Any:
        net.load_state_dict(first)
        for _ in range(2):
            loss = _descend(net, optimizer, x)
        return loss

    def change() -> None:
        first._metadata["1"]["version"] = 1
        del first["1.num_batches_tracked"]

    return Scene(step, change, state=_state(net))


@scene
def a_plain_dict_whose_tensors_change() -> Scene:
    net, other, optimizer = _pair()
    first = dict(copy.deepcopy(net.state_dict()))

    def step(x: Any) -> Any:
        net.load_state_dict(first)
        return _descend(net, optimizer, x)

    def change() -> None:
        first["0.weight"].mul_(2)
        first["0.bias"] = torch.ones(4)

    return Scene(step, change, state=_state(net))


@scene
def federated_averages() -> Scene:
    nets = [_build() for _ in range(3)]
    server = _build()
    weights = [0.5, 0.25, 0.25]

    def step(x: Any) -> Any:
        states = [net.state_dict() for net in nets]
        mean = {name: sum(w * state[name] for w, state in zip(weights, states, strict=True))
                for name in states[0] if "num_batches" not in name}
        keys = server.load_state_dict(mean, strict=False)
        return server(x).detach(), keys, len(keys.missing_keys)

    return Scene(step, lambda: weights.__setitem__(slice(None), [0.1, 0.8, 0.1]),
                 state=_state(server))


@scene
def partial_states() -> Scene:
    net, other, _ = _pair()
    names = ["0.weight", "3.bias"]

    def step(x: Any) -> Any:
        state = other.state_dict()
        for name in list(state):
            if name not in names:
                state.pop(name)
        state["0.weight"] = state["0.weight"] + x.mean()
        missing, unexpected = net.load_state_dict(state, strict=False)
        return missing, unexpected, net(x).detach()

    return Scene(step, lambda: names.append("0.bias"), state=_state(net, other))


@scene
def a_destination_outside() -> Scene:
    net, _, optimizer = _pair()
    into: Any = OrderedDict()
    log: list[Any] = []

    def step(x: Any) -> Any:
        net.state_dict(destination=into, prefix="a.")
        return _descend(net, optimizer, x)

    def change() -> None:
        log.append([*into])
        into.clear()

    return Scene(step, change, state=_state(net), log=log)


@scene
def assigned_tensors() -> Scene:
    net, other, _ = _pair()

    def step(x: Any) -> Any:
        net.load_state_dict({k: v + x.mean() for k, v in other.state_dict().items()}, assign=True)
        return net(x).detach()

    return Scene(step, lambda: other[0].weight.data.zero_(), state=_state(other))


@scene
def swapped_tensors() -> Scene:
    net, other, _ = _pair()

    def step(x: Any) -> Any:
        net.load_state_dict(other.state_dict())
        return net(x).detach(), net[0].weight.data_ptr() == 0

    def change() -> Any:
        torch.__future__.set_swap_module_params_on_conversion(True)
        restore = torch.__future__.set_swap_module_params_on_conversion
        return lambda: restore(False)

    return Scene(step, change, state=_state(net, other))


@scene
def a_state_with_variables() -> Scene:
    net = _build()

    def step(x: Any) -> Any:
        state = net.state_dict(keep_vars=True, prefix="net.")
        loss = (net(x)).sum() + sum(v.sum() for k, v in state.items() if k.endswith("weight"))
        loss.backward()
        return state["net.0.weight"].grad.clone()

    return Scene(step, lambda: net.zero_grad(), state=_state(net))


class _Counting(nn.Linear):
    def __init__(self) -> None:
        super().__init__(3, 3)
        self.count, self.loaded = 1, 0

    def get_extra_state(self) -> Any:
        return {"count": self.count, "names": ["a"] * self.count}

    def set_extra_state(self, state: Any) -> None:
        self.loaded = state["count"] + len(state["names"])


@scene
def extra_states() -> Scene:
    net, other = _Counting(), _Counting()
    log: list[Any] = []

    def step(x: Any) -> Any:
        other.load_state_dict(net.state_dict())
        return other(x).detach()

    def change() -> None:
        log.append(other.loaded)
        other.loaded, net.count = 0, 5

    return Scene(step, change, state=_state(net, other), log=log)


class _Renaming(nn.Linear):
    names: ClassVar[dict[str, str]] = {}

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, value in self._parameters.items():
            destination[prefix + self.names.get(name, name)] = value.detach()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name, value in self._parameters.items():
            value.data.copy_(state_dict[prefix + self.names.get(name, name)])


@scene
def own_names() -> Scene:
    net, other = nn.Sequential(_Renaming(3, 3)), nn.Sequential(_Renaming(3, 3))
    names = {"weight": "kernel"}
    net[0].names = other[0].names = names

    def step(x: Any) -> Any:
        state = net.state_dict()
        other.load_state_dict(state)
        return [*state], other(x).detach()

    return Scene(step, lambda: names.update(bias="offset"), state=_state(net, other))


@scene
def a_shape_that_no_longer_fits() -> Scene:
    net, other, _ = _pair()

    def step(x: Any) -> Any:
        other.load_state_dict(net.state_dict())
        return other[3].weight.detach() * 2

    def change() -> None:
        net[3] = nn.Linear(5, 1)

    return Scene(step, change, state=_state(other))


@scene
def loading_called_by_code_in_c() -> Scene:
    net, other, _ = _pair()

    def step(x: Any) -> Any:
        list(map(nn.Module.load_state_dict, [other], [net.state_dict()]))
        return other(x).detach()

    def change() -> None:
        def fill(module: Any, keys: Any) -> None:
            module[0].bias.data.fill_(3)

        other.register_load_state_dict_post_hook(fill)

    return Scene(step, change, state=_state(net, other))


@scene
def a_forward_called_by_code_in_c() -> Scene:
    drop = nn.Dropout(0.5)

    def step(x: Any) -> Any:
        results = list(map(drop.forward, [x]))
        return results[0]

    return Scene(step, drop.eval)


@scene
def modes_set_by_code_in_c() -> Scene:
    nets = [nn.Dropout(0.5), nn.Dropout(0.5)]
    log: list[Any] = []

    def step(x: Any) -> Any:
        list(map(nn.Module.eval, nets))
        return nets[0](x)

    def change() -> None:
        log.append(nets[0].training)
        nets[0].train()

    return Scene(step, change, log=log)
