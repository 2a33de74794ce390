"""Anomaly mode: backward reports where the failing operator was called, and rejects NaN."""

from __future__ import annotations

from ..native.foundation.user_frames import warn
from ..tensor.ambient import note_change
from .mode import MODE, SPECIAL


class set_detect_anomaly:
    """Set anomaly mode immediately; as a context manager, restore it on exit.

    >>> with torch.autograd.set_detect_anomaly(True):
    ...     torch.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.previous = MODE.anomaly, MODE.check_nan
        _set(mode, check_nan)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        _set(*self.previous)


def _set(mode: bool, check_nan: bool) -> None:
    entered = int(bool(mode)) - int(MODE.anomaly)
    SPECIAL.count += entered
    note_change(observers=entered)
    MODE.anomaly, MODE.check_nan = bool(mode), check_nan


class detect_anomaly(set_detect_anomaly):
    """Context in which backward names the operator that failed or returned NaN.

    >>> x = torch.zeros(1, requires_grad=True)
    >>> with torch.autograd.detect_anomaly():
    ...     try:
    ...         (x.sqrt() * 0).sum().backward()
    ...     except RuntimeError as error:
    ...         print(error)
    Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            UserWarning,
        )
        self.previous = MODE.anomaly, MODE.check_nan
        self.nan = check_nan

    def __enter__(self) -> None:
        _set(True, self.nan)


def is_anomaly_enabled() -> bool:
    """Return whether anomaly mode is on.

    >>> with torch.autograd.detect_anomaly():
    ...     torch.is_anomaly_enabled()
    True
    """
    return MODE.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether anomaly mode rejects NaN.

    >>> torch.is_anomaly_check_nan_enabled()
    True
    """
    return MODE.check_nan


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Turn anomaly mode on or off.

    >>> torch.set_anomaly_enabled(False)
    """
    _set(enabled, check_nan)
