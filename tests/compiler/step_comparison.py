"""Steps run eagerly and compiled, side by side, and everything that they leave compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn


def flat(x: Any) -> list[Any]:
    """The leaves of nested tuples, lists and dicts."""
    if isinstance(x, (tuple, list)):
        return [leaf for part in x for leaf in flat(part)]
    return flat(list(x.values())) if isinstance(x, dict) else [x]


def same(a: Any, b: Any, bound: float = 1e-5) -> None:
    """Asserts that two results are equal: shapes, dtypes, values, what requires grad."""
    ones, twos = flat(a), flat(b)
    assert len(ones) == len(twos)
    for first, second in zip(ones, twos, strict=True):
        if not isinstance(first, torch.Tensor):
            assert first == second
            continue
        assert first.shape == second.shape
        assert first.dtype == second.dtype
        assert first.requires_grad == second.requires_grad
        torch.testing.assert_close(first.detach(), second.detach(), rtol=bound, atol=bound)


def compiled(function: Any, **options: Any) -> Any:
    """Compiled at once, run by evaluate()."""
    return torch.compile(function, mode="now", backend="evaluate", **options)


def runs(function: Any) -> int:
    """How many calls programs served."""
    function = function.__dict__.get("_compiled", function)
    return sum(program.calls for program in function._programs)


def both(make: Callable[[], tuple], inputs: Callable[[int], tuple], calls: int = 6,
         between: Callable | None = None, least: int = 2) -> Any:
    """Runs make()'s step eagerly and compiled from the same seeds; compares all that comes of it.

    `make` gives (step, tensors): a dictionary of all that the step leaves, by a function, which is
    compared after each call. `between(i)` runs after each call.
    """
    torch.manual_seed(0)
    eager, eager_left = make()
    torch.manual_seed(0)
    step, left = make()
    fast = compiled(step)
    for i in range(calls):
        torch.manual_seed(i)
        args = inputs(i)
        state = torch.get_rng_state()
        wanted = eager(*args)
        torch.set_rng_state(state)
        same(fast(*args), wanted)
        same(left(), eager_left())
        if between is not None:
            between(i)
    assert runs(fast) >= least, "no program was used"
    return fast


def trainer(net: nn.Module, optimizer: Any, loss: Callable, clip: float | None = None) -> Callable:
    """A whole training step."""

    def step(*batch: torch.Tensor) -> Any:
        optimizer.zero_grad()
        value = loss(net, *batch)
        value.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        return value

    return step


def left_by(net: nn.Module, optimizer: Any = None) -> Callable[[], dict]:
    """What a step leaves: parameters, buffers, grads, the optimizer's state."""

    def left() -> dict:
        tensors: dict[str, Any] = dict(net.state_dict())
        tensors.update({f"{name}.grad": p.grad for name, p in net.named_parameters()})
        if optimizer is not None:
            for i, state in optimizer.state_dict()["state"].items():
                tensors.update({f"{i}.{key}": value for key, value in state.items()})
        return tensors

    return left


def classify(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The loss of a classifier."""
    return F.cross_entropy(net(x), y)
