"""The mode of `torch.use_deterministic_algorithms`, and the alerts of operators without one."""

from __future__ import annotations

from ..native.foundation.user_frames import warn


class Determinism:
    """The requested mode: "default", "warn" or "error"."""

    mode = "default"


def alert_not_deterministic(operator: str) -> None:
    """Raise RuntimeError, or warn, if determinism was requested: `operator` is PyTorch's name of
    an algorithm whose result depends on the order of writes.

    https://pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html
    """
    if Determinism.mode == "default":
        return
    if Determinism.mode == "warn":
        warn(
            f"{operator} does not have a deterministic implementation, but you set "
            "'torch.use_deterministic_algorithms(True, warn_only=True)'. You can file an issue at "
            "https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic "
            "support for this operation."
        )
        return
    raise RuntimeError(
        f"{operator} does not have a deterministic implementation, but you set "
        "'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this "
        "operation, or you can use the 'warn_only=True' option, if that's acceptable for your "
        "application. You can also file an issue at https://github.com/pytorch/pytorch/issues to "
        "help us prioritize adding deterministic support for this operation."
    )
