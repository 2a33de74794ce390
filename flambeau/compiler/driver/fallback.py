"""Fallback: how to run calls that no program serves, and how to warn the user."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ...native.foundation.user_frames import warn
from ...native.target.compile_costs import MAX_DYNAMIC_SPECIALIZATIONS, MAX_SPECIALIZATIONS
from ...nn.module import Module
from ..ir.reasons import advise
from .call_policy import CallPolicy
from .conditions import Conditions
from .program_builder import ProgramBuilder
from .specialization import Specialization
from .specializations import Specializations
from .states import Eager, Event


class Fallback:
    """Keeps specializations eager, or follows calls of a function."""

    def __init__(self, function: Callable, policy: CallPolicy, builder: ProgramBuilder,
                 specializations: Specializations) -> None:
        self.function, self.policy, self.builder = function, policy, builder
        self.specializations = specializations
        self.followed: Any = None  # FollowedFunction, if Python must run
        self.paths: list[Conditions] | None = []  # conditions of followed calls; None follows all
        self.reason = ""  # why Python must run
        self.warnings: set[str] = set()

    @property
    def name(self) -> str:
        """The function's or module's name, for messages."""
        owner = getattr(self.function, "__self__", None)
        if isinstance(owner, Module):
            return type(owner).__name__
        return getattr(self.function, "__name__", type(self.function).__name__)

    def forget(self) -> None:
        """Reset to the initial state."""
        self.followed, self.paths = None, []
        self.warnings.clear()

    def stop(self, specialization: Specialization, reason: str, line: str) -> None:
        """Keep a specialization's calls eager, with a warning. Raises if fullgraph=True."""
        specialization.signature = None
        specialization.become(Event.STOPPED, Eager(reason=reason))
        location = f" ({line})" if line else ""
        text = f"flambeau.compile: {self.name} stays eager: {reason}{location}"
        text += f". {more}" if (more := advise(reason)) else ""
        if self.policy.raises:
            raise RuntimeError(text)
        self.warn(text, line)

    def stop_skipping(self, specialization: Specialization, reason: str, line: str) -> None:
        """Follow calls from now on, or keep them eager, because the step's Python must run."""
        if self.policy.may_follow:
            self.start_following(". ".join(filter(None, (
                f"{reason} ({line})" if line else reason, advise(reason)))), specialization)
        else:
            self.stop(specialization, reason, line)

    def refuse_another(self) -> None:
        """Handle a call beyond the limit on combinations of shapes and plain arguments."""
        if self.policy.may_follow and self.specializations.differ_in_numbers():
            self.start_following("numbers or objects among its arguments change")
        else:
            self.warn(describe_limit(self.policy.max_specializations), "")

    def follows(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Whether a call that no program serves is followed."""
        return self.paths is None or any(path.admits(args, kwargs) for path in self.paths)

    def start_following(self, reason: str, specialization: Specialization | None = None) -> None:
        """Follow calls from now on: all, or those whose decisions about numbers match the last
        recorded call of a specialization."""
        from ..follow.followed_function import FollowedFunction

        self.reason = reason
        path = None if specialization is None else specialization.path
        if path is None or self.paths is None or len(self.paths) == MAX_SPECIALIZATIONS:
            self.paths = None
            self.specializations.follow_all()
        else:
            assert specialization is not None
            self.paths.append(path)
            self.specializations.follow(specialization)
        if self.followed is not None:
            return
        self.followed = FollowedFunction(
            self.function, self.builder.build, self.policy.is_synchronous, self._stop_following,
            self.policy.follows_without_trial,
            None if self.policy.evaluates else self.builder.plan)

    def _stop_following(self, why: str) -> None:
        if self.paths is not None:
            return  # other calls may have programs
        self.warn(f"flambeau.compile: {self.name} stays eager: {why}. Its Python runs on every "
                  f"call, because {self.reason}", "")

    def warn(self, text: str, line: str) -> None:
        """Warn once per text, attributing the warning to the offending line."""
        if text in self.warnings:
            return
        self.warnings.add(text)
        file, _, number = line.rpartition(":")
        if file and number.isdigit():
            warnings.warn_explicit(text, UserWarning, file, int(number))
        else:
            warn(text, UserWarning)


def describe_limit(kinds: int) -> str:
    """Return the warning for exceeding the limit on specializations."""
    limit = MAX_DYNAMIC_SPECIALIZATIONS
    more = "" if kinds >= limit else f"; dynamic=True allows {limit}"
    return (
        f"{kinds} kinds of calls (shapes, dtypes, plain arguments, flags) have programs "
        "of their own; others run without, until one of these is called no more. Pad inputs "
        f"to a few shapes, and pass numbers that change as tensors{more}."
    )
