"""Scripts that alter a model or an algorithm between the calls of their step."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.nn.utils import parametrizations, parametrize

from .followed_scenes import data, training
from .loop_scenes import descend
from .scenario import Scene, collect

SCENES: dict[str, Callable[[], Scene]] = {}
scene = collect(SCENES)


class Adapter(nn.Module):
    """A linear layer with a product of low rank beside it."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear, self.scale, self.is_merged = linear, 0.5, False
        self.down = nn.Parameter(torch.randn(2, linear.in_features))
        self.up = nn.Parameter(torch.randn(linear.out_features, 2))

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        return y if self.is_merged else y + self.scale * (x @ self.down.t() @ self.up.t())

    def merge(self) -> None:
        with torch.no_grad():
            self.linear.weight += self.scale * self.up @ self.down
        self.is_merged = True


@scene
def an_adapter_that_is_merged() -> Scene:
    net, _ = training()
    net.requires_grad_(False)
    adapters = [Adapter(net[0]), Adapter(net[2])]
    net[0], net[2] = adapters
    opt = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=0.1)

    def step(x: Any, y: Any) -> Any:
        return descend(net, opt, x, y)

    return Scene(step, adapters[0].merge, data, [*net.parameters()])


@scene
def an_adapter_for_another_layer() -> Scene:
    net, _ = training()
    net.requires_grad_(False)
    net[0] = Adapter(net[0])
    opt = torch.optim.Adam([net[0].down, net[0].up], lr=0.1)

    def change() -> None:
        net[2] = added = Adapter(net[2])
        opt.add_param_group({"params": [added.down, added.up], "lr": 0.05})

    def step(x: Any, y: Any) -> Any:
        return descend(net, opt, x, y)

    return Scene(step, change, data, [*net.parameters()])


@scene
def weight_norm_that_is_removed() -> Scene:
    net, _ = training()
    parametrizations.weight_norm(net[0])
    box = {"opt": torch.optim.SGD(net.parameters(), lr=0.1)}

    def change() -> None:
        parametrize.remove_parametrizations(net[0], "weight")
        box["opt"] = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        return descend(net, box["opt"], x, y)

    return Scene(step, change, data, [net[2].weight, net[2].bias])


@scene
def spectral_norm_in_evaluation_mode() -> Scene:
    net, _ = training()
    parametrizations.spectral_norm(net[0])
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        return descend(net, opt, x, y)

    return Scene(step, lambda: net[0].eval(), data, [*net.parameters(), *net.buffers()])


@scene
def a_network_that_is_reset() -> Scene:
    net, opt = training(optimizer=torch.optim.Adam)
    first = copy.deepcopy(net.state_dict())

    def change() -> None:
        net.load_state_dict(first)
        opt.state.clear()

    def step(x: Any, y: Any) -> Any:
        return descend(net, opt, x, y)

    return Scene(step, change, data, [*net.parameters()])


@scene
def averages_that_begin_late() -> Scene:
    net, opt = training()
    averaged = torch.optim.swa_utils.AveragedModel(net)
    schedule = torch.optim.swa_utils.SWALR(opt, 0.01, anneal_epochs=3)
    begun: list[bool] = []

    def step(x: Any, y: Any) -> Any:
        loss = descend(net, opt, x, y)
        if begun:
            averaged.update_parameters(net)
            schedule.step()
        return loss, opt.param_groups[0]["lr"]

    return Scene(step, lambda: begun.append(True), data,
                 [*averaged.parameters(), averaged.n_averaged])


@scene
def critics_that_learn_more_often() -> Scene:
    maker, make_opt = training(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3),
                               optimizer=torch.optim.Adam)
    critic, critic_opt = training(nn.Linear(3, 1), optimizer=torch.optim.Adam)
    rounds = [1]

    def step(x: Any, y: Any) -> Any:
        sample = x
        for _ in range(rounds[0]):
            sample = maker(torch.randn(5, 3))
            loss = F.softplus(-critic(x)).mean() + F.softplus(critic(sample.detach())).mean()
            critic_opt.zero_grad()
            loss.backward()
            critic_opt.step()
        loss = F.softplus(-critic(sample)).mean()
        make_opt.zero_grad()
        loss.backward()
        make_opt.step()
        return loss

    return Scene(step, lambda: rounds.append(rounds.pop() + 1), data,
                 [*maker.parameters(), *critic.parameters()])


@scene
def a_codebook_of_moving_averages() -> Scene:
    codes, counts, decay = torch.randn(4, 3), torch.ones(4), [0.9]

    def step(x: Any, y: Any) -> Any:
        nearest = torch.cdist(x, codes).argmin(1)
        chosen = F.one_hot(nearest, 4).float()
        counts.mul_(decay[0]).add_(chosen.sum(0), alpha=1 - decay[0])
        codes.mul_(decay[0]).add_(chosen.t() @ x, alpha=1 - decay[0])
        return (x + (codes[nearest] - x).detach()).sum(), nearest

    return Scene(step, lambda: decay.__setitem__(0, 0.5), data, [codes, counts])


@scene
def gradients_that_are_projected() -> Scene:
    net, _ = training()
    rate = [0.1]

    def step(x: Any, y: Any) -> Any:
        output = net(x)
        parameters = [*net.parameters()]
        first, second = (
            torch.cat([g.flatten() for g in torch.autograd.grad(
                loss, parameters, retain_graph=True)])
            for loss in (F.cross_entropy(output, y), output.pow(2).mean()))
        overlap = first @ second
        if overlap < 0:
            first = first - overlap / second.norm() ** 2 * second
        moved = nn.utils.parameters_to_vector(parameters) - rate[0] * (first + second)
        nn.utils.vector_to_parameters(moved, parameters)
        return overlap

    return Scene(step, lambda: rate.__setitem__(0, 0.01), data, [*net.parameters()])


@scene
def experts_that_may_be_idle() -> Scene:
    experts, opt = training(nn.Linear(3, 3), nn.Linear(3, 3))
    gate, load = nn.Linear(3, 2), torch.zeros(2)

    def step(x: Any, y: Any) -> Any:
        weights = gate(x).softmax(-1)
        choice, mixed = weights.argmax(-1), torch.zeros_like(x)
        for k, expert in enumerate(experts):
            chosen = choice == k
            if chosen.any():
                mixed[chosen] = expert(x[chosen]) * weights[chosen, k : k + 1]
            load[k] += chosen.sum()
        loss = mixed.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return Scene(step, lambda: nn.init.zeros_(gate.weight), data, [*experts.parameters(), load])


@scene
def updates_that_stop_early() -> Scene:
    policy, opt = training(nn.Linear(3, 2), optimizer=torch.optim.Adam)
    limit = [0.01]

    def step(x: Any, y: Any) -> Any:
        before, rounds = F.log_softmax(policy(x), 1).gather(1, y[:, None]).detach(), 0
        while rounds < 4:
            rounds += 1
            after = F.log_softmax(policy(x), 1).gather(1, y[:, None])
            ratio = (after - before).exp()
            loss = -torch.min(ratio, ratio.clamp(0.8, 1.2)).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            if (after - before).mean().item() > limit[0]:
                break
        return loss, rounds

    return Scene(step, lambda: limit.__setitem__(0, 1.0), data, [*policy.parameters()])


@scene
def a_cell_that_is_fed_its_own_outputs() -> Scene:
    cell = nn.GRUCell(3, 3)
    opt = torch.optim.SGD(cell.parameters(), lr=0.1)
    chance, ratio = random.Random(0), [0.5]

    def step(x: Any, y: Any) -> Any:
        state, fed, loss = torch.zeros(5, 3), x, torch.zeros(())
        for _ in range(3):
            state = cell(fed, state)
            loss = loss + (state - x).pow(2).mean()
            fed = x if chance.random() < ratio[0] else state
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return Scene(step, lambda: ratio.__setitem__(0, 0.0), data, [*cell.parameters()])
