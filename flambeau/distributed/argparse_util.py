"""Command-line options with defaults from the environment: --nnodes from PET_NNODES."""

from __future__ import annotations

import os
from argparse import Action, ArgumentParser, Namespace
from typing import Any

__all__ = ["check_env", "env"]


class env(Action):
    """An option with a value. PET_<name>, if set, is its default."""

    def __init__(
        self, dest: str, default: Any = None, required: bool = False, **kwargs: Any
    ) -> None:
        default = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(dest=dest, default=default, required=required and not default, **kwargs)

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option: Any = None
    ) -> None:
        setattr(namespace, self.dest, values)


class check_env(Action):
    """A flag that is on by default if PET_<name> is a nonzero number."""

    def __init__(self, dest: str, default: bool = False, **kwargs: Any) -> None:
        value = os.environ.get(f"PET_{dest.upper()}", "1" if default else "0")
        super().__init__(dest=dest, const=True, default=bool(int(value)), nargs=0, **kwargs)

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option: Any = None
    ) -> None:
        setattr(namespace, self.dest, True)
