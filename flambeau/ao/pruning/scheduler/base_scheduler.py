"""The class of all schedulers: it sets the sparsity level of a sparsifier's groups."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from ....native.foundation.user_frames import warn
from ..sparsifier.base_sparsifier import BaseSparsifier

__all__ = ["BaseScheduler"]


class BaseScheduler:
    """A schedule of `sparsity_level`; a subclass defines `get_sl`, the levels of an epoch.

    Call the sparsifier's `step` before the scheduler's.

    >>> class Halving(torch.ao.pruning.BaseScheduler):
    ...     def get_sl(self):
    ...         return [level / 2 ** self.last_epoch for level in self.base_sl]
    >>> sparsifier = torch.ao.pruning.WeightNormSparsifier(sparsity_level=0.5)
    >>> sparsifier.prepare(nn.Sequential(nn.Linear(4, 4)), None)
    >>> scheduler = Halving(sparsifier)
    >>> sparsifier.step()
    >>> scheduler.step()
    >>> scheduler.get_last_sl()
    [0.25]
    """

    def __init__(self, sparsifier: Any, last_epoch: int = -1, verbose: bool = False) -> None:
        if not isinstance(sparsifier, BaseSparsifier):
            raise TypeError(f"{type(sparsifier).__name__} is not an instance of "
                            "torch.ao.pruning.BaseSparsifier")
        self.sparsifier: Any = sparsifier
        self.base_sl = [group["sparsity_level"] for group in sparsifier.groups]
        self.last_epoch, self.verbose = last_epoch, verbose
        self.sparsifier.step = _count_calls(self.sparsifier.step)
        self.sparsifier._step_count = self._step_count = 0
        self._get_sl_called_within_step = False
        self.step()

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the sparsifier."""
        return {key: value for key, value in self.__dict__.items() if key != "sparsifier"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over attributes that `state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_sl(self) -> list[float]:
        """Return the levels that the last step set."""
        return self._last_sl

    def get_sl(self) -> list[float]:
        """Return the levels of the epoch `last_epoch`; `step` calls it."""
        self._advise_last_sl()
        raise NotImplementedError

    def _advise_last_sl(self) -> None:
        if not self._get_sl_called_within_step:
            warn("To get the last sparsity level computed by the scheduler, "
                 "please use `get_last_sl()`.", UserWarning)

    def print_sl(self, is_verbose: bool, group: int, sl: float, epoch: int | None = None) -> None:
        """Print a group's level if `is_verbose`."""
        if is_verbose:
            text = f"djusting sparsity level of group {group} to {sl:.4e}."
            print("A" + text if epoch is None else f"Epoch {epoch:5d}: a{text}")

    def __repr__(self) -> str:
        return (f"{type(self).__name__} (\nSparsifier {self.sparsifier}\n"
                f"    base_sl: {self.base_sl}\n)")

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch and set its levels."""
        self._warn_about_order()
        self._step_count += 1
        self.last_epoch += 1
        self._get_sl_called_within_step = True
        try:
            levels = self.get_sl()
        finally:
            self._get_sl_called_within_step = False
        for i, (group, level) in enumerate(zip(self.sparsifier.groups, levels, strict=False)):
            group["sparsity_level"] = level
            self.print_sl(self.verbose, i, level, epoch)
        self._last_sl = [group["sparsity_level"] for group in self.sparsifier.groups]
        self.sparsifier.enable_mask_update = True

    def _warn_about_order(self) -> None:
        if self._step_count != 1:
            return
        if not hasattr(self.sparsifier.step, "_with_counter"):
            warn("Seems like `sparsifier.step()` has been overridden after sparsity scheduler "
                 "initialization. Please, make sure to call `sparsifier.step()` before "
                 "`scheduler.step()`.", UserWarning)
        elif self.sparsifier._step_count < 1:
            warn("Detected call of `scheduler.step()` before `sparsifier.step()`. "
                 "You have to make sure you run the sparsifier.step() BEFORE any "
                 "calls to the scheduler.step().", UserWarning)

    def _make_sure_a_list(self, var: Any) -> list:
        """Return one value per group. Raises ValueError for a list of another length."""
        count = len(self.sparsifier.groups)
        if not isinstance(var, (list, tuple)):
            return [var] * count
        if len(var) != count:
            raise ValueError(f"Expected variable of length {count}, but got {len(var)}")
        return list(var)


def _count_calls(step: Any) -> Any:
    """Return a method that counts its calls in `_step_count` of its sparsifier."""
    if hasattr(step, "_with_counter"):
        return step
    reference, function = weakref.ref(step.__self__), step.__func__

    @functools.wraps(function)
    def count_and_step(*args: Any, **kwargs: Any) -> Any:
        sparsifier: Any = reference()
        sparsifier._step_count += 1
        return function(sparsifier, *args, **kwargs)

    attributes: Any = count_and_step
    attributes._with_counter = True
    return count_and_step
