"""Freeze and unfreeze parameters by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from ..events.order import Band
from ..events.suggestions import suggest


def match_parameters(net: Any, patterns: tuple[str, ...]) -> dict[str, Any]:
    """Return the net's parameters, by name, that match a module, a parameter, or "layer*".

    Raises ValueError, with suggestions, for a pattern without a match.
    """
    parameters = dict(net.named_parameters())
    result: dict[str, Any] = {}
    for pattern in patterns:
        matches = {
            name: parameter for name, parameter in parameters.items()
            if name == pattern or name.startswith(f"{pattern}.") or fnmatchcase(name, pattern)
        }
        if not matches:
            modules = [name for name, _ in net.named_modules() if name]
            hint = suggest(pattern, [*modules, *parameters])
            raise ValueError(f"no parameter is called '{pattern}'{hint}")
        result.update(matches)
    return result


class Holding:
    """Base class of Freeze and Unfreeze: makes the parameters it froze trainable after the run."""

    band = Band.CONTROL

    def __init__(self) -> None:
        self._frozen: dict[str, Any] = {}  # by this callback

    def _hold(self, name: str, parameter: Any) -> None:
        if parameter.requires_grad:
            parameter.requires_grad_(False)
            parameter.grad = None
            self._frozen[name] = parameter

    def on_run_end(self) -> None:
        """Restore the frozen parameters."""
        self._thaw()

    def on_run_error(self) -> None:
        """Restore the frozen parameters."""
        self._thaw()

    def _thaw(self) -> None:
        for parameter in self._frozen.values():
            parameter.requires_grad_(True)
        self._frozen.clear()


class Freeze(Holding):
    """Freezes parameters from epoch `start` up to, but not including, epoch `until`.

    Names are of modules ("encoder"), parameters, or patterns ("layer[12].*"). Parameters that were
    not trainable before stay so. A frozen batch norm still updates its running statistics, which
    are buffers.

    >>> from flambeau.train import Trainer, epoch
    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    >>> trainer = Trainer(net, "sgd", "mse", compile=False, callbacks=[Freeze("0", until=2)])
    >>> @trainer.on(epoch.end)
    ... def show(run):
    ...     print(run.net[0].weight.requires_grad)
    >>> _ = trainer.fit((torch.zeros(4, 2), torch.zeros(4, 1)), epochs=2)
    False
    True
    """

    def __init__(self, *names: str, start: int = 1, until: int | None = None) -> None:
        if not names or not all(isinstance(name, str) for name in names):
            raise TypeError("Freeze takes names of modules or parameters: Freeze('encoder', ...)")
        if start < 1 or (until is not None and until <= start):
            raise ValueError(f"Freeze: expected 1 <= start < until, got {start}, "
                             f"{until}")
        super().__init__()
        self.names, self.start, self.until = names, start, until

    def on_run_start(self, run: Any) -> None:
        """Raise for names without a match before training starts."""
        match_parameters(run.net, self.names)

    def on_epoch_start(self, run: Any) -> None:
        """Freeze or thaw, by the epoch alone, so that a resumed run agrees."""
        epoch = run.state.epoch
        if self.start <= epoch and (self.until is None or epoch < self.until):
            for name, parameter in match_parameters(run.net, self.names).items():
                self._hold(name, parameter)
        else:
            self._thaw()


class Unfreeze(Holding):
    """Unfreezes the net in stages, by epoch: `{1: "head", 3: "layer4", 5: "*"}`.

    A parameter is frozen until its epoch; parameters without an epoch stay frozen.

    >>> from flambeau.train import Trainer, epoch
    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    >>> trainer = Trainer(net, "sgd", "mse", compile=False, callbacks=[Unfreeze({1: "1", 2: "*"})])
    >>> @trainer.on(epoch.end)
    ... def show(run):
    ...     print(run.net[0].weight.requires_grad, run.net[1].weight.requires_grad)
    >>> _ = trainer.fit((torch.zeros(4, 2), torch.zeros(4, 1)), epochs=2)
    False True
    True True
    """

    def __init__(self, schedule: Mapping[int, str | tuple[str, ...] | list[str]]) -> None:
        if not schedule or min(schedule) < 1:
            raise ValueError(f"Unfreeze takes a dict from epochs (from 1) to names, not "
                             f"{schedule!r}")
        super().__init__()
        self.schedule = {
            number: (names,) if isinstance(names, str) else tuple(names)
            for number, names in sorted(schedule.items())
        }

    def on_run_start(self, run: Any) -> None:
        """Raise for names without a match before training starts."""
        for names in self.schedule.values():
            match_parameters(run.net, names)

    def on_epoch_start(self, run: Any) -> None:
        """Freeze parameters whose epoch is to come, by the epoch alone: a resumed run agrees."""
        trained: dict[str, Any] = {}
        for start, names in self.schedule.items():
            if start <= run.state.epoch:
                trained.update(match_parameters(run.net, names))
        for name, parameter in run.net.named_parameters():
            if name in trained and name in self._frozen:
                self._frozen.pop(name).requires_grad_(True)
            elif name not in trained:
                self._hold(name, parameter)
