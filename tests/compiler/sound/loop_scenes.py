"""Idioms of real training loops: what scripts do inside of a step beside its mathematics."""

from __future__ import annotations

import collections
import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .followed_scenes import data, training
from .scenario import Scene, collect

SCENES: dict[str, Callable[[], Scene]] = {}
scene = collect(SCENES)


def descend(net: Any, opt: Any, x: Any, y: Any) -> Any:
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    return loss


def scene_around(act: Callable[..., Any], *, log: list[Any] | None = None,
                 change: Callable[[], Any] = lambda: None, **options: Any) -> Scene:
    """A training step that ends with act(loss, net, opt)."""
    net, opt = training(**options)

    def step(x: Any, y: Any) -> Any:
        loss = descend(net, opt, x, y)
        result = act(loss, net, opt)
        return loss if result is None else (loss, result)

    return Scene(step, change, data, [*net.parameters()], [] if log is None else log)


# ------------------------------------------------------------------------------- statistics


@scene
def a_moving_average_in_a_dict() -> Scene:
    stats: dict[str, float] = {}
    log: list[Any] = []

    def act(loss: Any, net: Any, opt: Any) -> None:
        stats["loss"] = 0.9 * stats.get("loss", loss.item()) + 0.1 * loss.item()
        log.append(round(stats["loss"], 4))

    return scene_around(act, log=log)


@scene
def a_meter_class() -> Scene:
    class Meter:
        def __init__(self) -> None:
            self.sum = self.count = 0.0

        def update(self, value: float, n: int = 1) -> None:
            self.sum += value * n
            self.count += n

        @property
        def average(self) -> float:
            return self.sum / max(self.count, 1)

    meter, log = Meter(), []

    def act(loss: Any, net: Any, opt: Any) -> None:
        meter.update(loss.item(), 5)
        log.append(round(meter.average, 4))

    return scene_around(act, log=log)


@scene
def a_window_of_losses() -> Scene:
    window: Any = collections.deque(maxlen=3)
    log: list[Any] = []

    def act(loss: Any, net: Any, opt: Any) -> float:
        window.append(loss.detach())
        mean = torch.stack(list(window)).mean()
        log.append(len(window))
        return mean.item()

    return scene_around(act, log=log)


@scene
def a_counter_of_predictions() -> Scene:
    seen: Any = collections.Counter()
    net, opt = training()

    def step(x: Any, y: Any) -> Any:
        loss = descend(net, opt, x, y)
        with torch.no_grad():
            seen.update(net(x).argmax(1).tolist())
        return loss

    return Scene(step, arguments=data, state=[*net.parameters()], log=[seen])


@scene
def a_tensor_that_accumulates_and_is_reset() -> Scene:
    total = torch.zeros(())
    log: list[Any] = []
    steps = itertools.count(1)

    def act(loss: Any, net: Any, opt: Any) -> None:
        total.add_(loss.detach())
        if next(steps) % 4 == 0:
            log.append(f"{total.item() / 4:.3f}")
            total.zero_()

    return scene_around(act, log=log)


# ---------------------------------------------------------------------------------- stopping


@scene
def early_stopping() -> Scene:
    class Stopped(Exception):
        pass

    best, bad = math.inf, 0
    log: list[Any] = []

    def act(loss: Any, net: Any, opt: Any) -> None:
        nonlocal best, bad
        if loss.item() < best - 1e-3:
            best, bad = loss.item(), 0
        else:
            bad += 1
            if bad >= 2:
                bad = 0
                log.append("stopped")
                raise Stopped(f"at {best:.2f}")

    return scene_around(act, log=log)


@scene
def the_best_weights_are_kept() -> Scene:
    best: dict[str, Any] = {"loss": math.inf, "state": None}

    def act(loss: Any, net: Any, opt: Any) -> Any:
        if loss < best["loss"]:
            best["loss"] = loss.item()
            best["state"] = {k: v.clone() for k, v in net.state_dict().items()}
        return best["state"]["0.weight"].sum()

    return scene_around(act, log=[best])


@scene
def a_check_for_nan() -> Scene:
    log: list[Any] = []
    calls = itertools.count()
    net, opt = training()

    def step(x: Any, y: Any) -> Any:
        if next(calls) % 5 == 4:
            x = x / 0.0
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        if torch.isnan(loss) or not math.isfinite(loss.item()):
            log.append("skipped")
            return None
        loss.backward()
        opt.step()
        return loss

    return Scene(step, arguments=data, state=[*net.parameters()], log=log)


@scene
def an_assertion_on_shapes_and_values() -> Scene:
    def act(loss: Any, net: Any, opt: Any) -> None:
        assert loss.ndim == 0
        assert loss.item() >= 0, loss
        assert all(p.grad is not None and p.grad.shape == p.shape for p in net.parameters())

    return scene_around(act)


# ---------------------------------------------------------------------------------- gradients


@scene
def clipping_with_a_logged_norm() -> Scene:
    net, opt = training(optimizer=torch.optim.Adam)
    log: list[Any] = []

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.3)
        if norm > 0.3:
            log.append("clipped")
        opt.step()
        return loss, norm

    return Scene(step, arguments=data, state=[*net.parameters()], log=log)


@scene
def accumulation_over_three_calls() -> Scene:
    net, opt = training()
    log: list[Any] = []
    calls = itertools.count(1)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x), y) / 3
        loss.backward()
        if next(calls) % 3 == 0:
            opt.step()
            opt.zero_grad()
            log.append("update")
        return loss * 3

    return Scene(step, arguments=data, state=[*net.parameters()], log=log)


@scene
def norms_of_all_gradients() -> Scene:
    log: list[Any] = []

    def act(loss: Any, net: Any, opt: Any) -> None:
        log.append({n: f"{p.grad.norm():.2f}" for n, p in net.named_parameters()})

    return scene_around(act, log=log)


@scene
def noise_on_gradients() -> Scene:
    net, opt = training()

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad(set_to_none=random.random() < 2)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p.grad.add_(torch.randn_like(p.grad), alpha=0.01)
        opt.step()
        return loss

    return Scene(step, arguments=data, state=[*net.parameters()])


@scene
def layers_that_thaw_one_by_one() -> Scene:
    net, opt = training()
    for p in net[0].parameters():
        p.requires_grad_(False)
    calls = itertools.count()

    def step(x: Any, y: Any) -> Any:
        if next(calls) == 6:
            for p in net[0].parameters():
                p.requires_grad_(True)
        return descend(net, opt, x, y)

    return Scene(step, arguments=data, state=[*net.parameters()])


@scene
def a_penalty_from_autograd_grad() -> Scene:
    net, opt = training()
    log: list[Any] = []

    def step(x: Any, y: Any) -> Any:
        x = x.requires_grad_()
        opt.zero_grad()
        out = net(x)
        (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        penalty = (g.norm(2, dim=1) - 1).square().mean()
        loss = F.cross_entropy(out, y) + 0.1 * penalty
        loss.backward()
        opt.step()
        log.append(penalty.item() > 0.5)
        return loss

    return Scene(step, arguments=data, state=[*net.parameters()], log=log)


# -------------------------------------------------------------------------------------- data


@scene
def mixup() -> Scene:
    random.seed(1)
    net, opt = training()

    def step(x: Any, y: Any) -> Any:
        share = random.betavariate(0.4, 0.4)
        order = torch.randperm(len(x))
        mixed = share * x + (1 - share) * x[order]
        opt.zero_grad()
        out = net(mixed)
        loss = share * F.cross_entropy(out, y) + (1 - share) * F.cross_entropy(out, y[order])
        loss.backward()
        opt.step()
        return loss

    return Scene(step, arguments=data, state=[*net.parameters()])


@scene
def augmentation_by_chance() -> Scene:
    generator = np.random.default_rng(3)
    net, opt = training()

    def step(x: Any, y: Any) -> Any:
        if generator.random() < 0.5:
            x = x.flip(1)
        if generator.random() < 0.3:
            x = x + 0.1 * torch.from_numpy(generator.standard_normal(x.shape).astype("f4"))
        return descend(net, opt, x, y)

    return Scene(step, arguments=data, state=[*net.parameters()])


@scene
def batches_from_a_generator() -> Scene:
    net, opt = training()

    def batches() -> Iterator[tuple[Any, Any]]:
        for n in itertools.cycle((5, 5, 5, 2)):
            yield torch.randn(n, 3), torch.randint(2, (n,))

    source = batches()

    def step() -> Any:
        return descend(net, opt, *next(source))

    return Scene(step, arguments=tuple, state=[*net.parameters()])


@scene
def batches_until_there_are_none() -> Scene:
    net, opt = training()
    log: list[Any] = []
    rows = torch.randn(15, 3), torch.randint(2, (15,))
    source: Any = iter(())

    def step() -> Any:
        nonlocal source
        try:
            k = next(source)
        except StopIteration:
            log.append("epoch")
            source = iter(range(0, 15, 5))
            k = next(source)
        return descend(net, opt, rows[0][k : k + 5], rows[1][k : k + 5])

    return Scene(step, arguments=tuple, state=[*net.parameters()], log=log)


@scene
def a_curriculum_by_a_global() -> Scene:
    net, opt = training()
    space = {"torch": torch, "net": net, "opt": opt, "descend": descend, "LEVEL": 1}
    exec("""
def step(x, y):
    global LEVEL
    loss = descend(net, opt, x * LEVEL, y)
    if loss < 0.7:
        LEVEL += 1
    return loss
""", space)
    return Scene(space["step"], lambda: space.__setitem__("LEVEL", 0.5), data,
                 [*net.parameters()])


@scene
def scheduled_sampling() -> Scene:
    cell = nn.GRUCell(3, 3)
    chance = random.Random(5)

    def step(x: Any) -> Any:
        h, outs, token = torch.zeros(4, 3), [], x
        for t in range(3):
            h = cell(token, h)
            outs.append(h)
            token = h if chance.random() < 0.5 else x * t
        loss = torch.stack(outs).square().mean()
        loss.backward()
        return loss.detach()

    return Scene(step, state=[*cell.parameters()])


# ------------------------------------------------------------------------------ rates and modes


@scene
def warmup_inside_of_the_step() -> Scene:
    calls = itertools.count(1)
    net, opt = training(optimizer=torch.optim.AdamW)

    def step(x: Any, y: Any) -> Any:
        for group in opt.param_groups:
            group["lr"] = 0.05 * min(1.0, next(calls) / 8)
        return descend(net, opt, x, y)

    return Scene(step, arguments=data, state=[*net.parameters()], log=[opt.param_groups[0]])


@scene
def a_rate_that_follows_the_loss() -> Scene:
    net, opt = training()
    plan = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1, factor=0.5)

    def step(x: Any, y: Any) -> Any:
        loss = descend(net, opt, x, y)
        plan.step(loss.item())
        return loss, opt.param_groups[0]["lr"]

    return Scene(step, arguments=data, state=[*net.parameters()])


@scene
def an_evaluation_every_third_call() -> Scene:
    net, opt = training(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 2))
    log: list[Any] = []
    calls = itertools.count(1)

    def step(x: Any, y: Any) -> Any:
        loss = descend(net, opt, x, y)
        if next(calls) % 3 == 0:
            net.eval()
            with torch.no_grad():
                log.append(int((net(x).argmax(1) == y).sum()))
            net.train()
        return loss

    return Scene(step, arguments=data, state=[*net.parameters(), *net.buffers()], log=log)


@scene
def a_target_network() -> Scene:
    net, opt = training()
    target, _ = training()
    target.load_state_dict(net.state_dict())
    calls = itertools.count(1)

    def step(x: Any, y: Any) -> Any:
        with torch.no_grad():
            wanted = target(x).max(1).values
        opt.zero_grad()
        loss = F.smooth_l1_loss(net(x).gather(1, y[:, None])[:, 0], wanted)
        loss.backward()
        opt.step()
        if next(calls) % 4 == 0:
            target.load_state_dict(net.state_dict())
        return loss

    return Scene(step, arguments=data, state=[*net.parameters(), *target.parameters()])


@scene
def averaged_weights() -> Scene:
    net, opt = training()
    shadow = {n: p.detach().clone() for n, p in net.named_parameters()}
    calls = itertools.count(1)

    def act(loss: Any) -> Any:
        decay = min(0.9, next(calls) / (10 + next(calls)))
        with torch.no_grad():
            for n, p in net.named_parameters():
                shadow[n].mul_(decay).add_(p, alpha=1 - decay)

    def step(x: Any, y: Any) -> Any:
        loss = descend(net, opt, x, y)
        act(loss)
        return loss

    return Scene(step, arguments=data, state=[*net.parameters(), *shadow.values()])
