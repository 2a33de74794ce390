"""Join: train when processes have different numbers of inputs.

A process that runs out of inputs keeps taking part in the others' collectives ("shadows" them)
until all are done. See https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, NamedTuple

from ... import ops
from ...native.foundation.user_frames import warn
from .. import collectives

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process without inputs runs: `main_hook` for each step of the others, then
    `post_hook(is_last_joiner)` once."""

    def main_hook(self) -> None:
        """Take part in the collectives of one step."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Run once all processes are done."""


class Joinable(ABC):
    """An object that runs collectives in each step and can be shadowed in a Join context."""

    _join_config: _JoinConfig

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig.disabled()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook that shadows this object's collectives."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of the context's own collectives."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The process group of the context's own collectives."""


class _JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def disabled() -> _JoinConfig:
        """Return the configuration of an object outside any context."""
        return _JoinConfig(False, False, False)


class Join:
    """A context for a loop over uneven inputs. Its joinables notify it of each step."""

    def __init__(
        self, joinables: list[Joinable], enable: bool = True,
        throw_on_early_termination: bool = False, **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._join_hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable, self._throw_on_early_termination = enable, throw_on_early_termination
        for i, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, i == 0)
        groups = {id(joinable.join_process_group): joinable.join_process_group
                  for joinable in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._process_group = next(iter(groups.values()))
        self._rank = self._process_group.rank()

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Shadow the other processes' steps until all are done."""
        if not self._enable or kind:
            return
        is_last_joiner, all_done, rounds = True, False, 0
        while not all_done:
            remaining = self._count_others()
            if remaining == 0:
                all_done = True
                continue
            if self._throw_on_early_termination:
                self._tell_all_to_stop()
            is_last_joiner = False
            rounds += 1
            if rounds == 1000:
                warn("Detected uneven input skew of greater than 1000. This means that "
                     f"rank {self._rank} has at least 1000 fewer inputs than other "
                     "currently-active ranks.")
            for hook in self._join_hooks:
                hook.main_hook()
        for hook in self._join_hooks:
            hook.post_hook(is_last_joiner)

    def _count_others(self) -> int:
        """Return how many processes still have inputs; each of them adds 1."""
        count = ops.zeros(1)
        collectives.all_reduce(count, group=self._process_group)
        return int(count.item())

    def _tell_all_to_stop(self) -> None:
        ended = ops.ones(1)
        collectives.all_reduce(ended, group=self._process_group)
        raise RuntimeError(f"Rank {self._rank} exhausted all inputs.")

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Tell the other processes that this one has an input, before a joinable's collectives.

        Only the first joinable of a context counts. Returns a Work, or None outside a context.
        """
        config = getattr(joinable, "_join_config", None)
        if config is None or not config.enable or not config.is_first_joinable:
            return None
        group = joinable.join_process_group
        work = collectives.all_reduce(ops.ones(1), group=group, async_op=True)
        if config.throw_on_early_termination:
            ended = ops.zeros(1)
            collectives.all_reduce(ended, group=group)
            if ended.item():
                raise RuntimeError("Detected at least one rank that exhausted inputs. "
                                   "Throwing across all ranks.")
        return work
