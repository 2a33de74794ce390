"""Errors for programs that cannot be exported, with PyTorch's names."""

from __future__ import annotations

import enum
from typing import Any

__all__ = ["ArchiveError", "GuardOnDataDependentSymNode", "TorchDynamoException", "Unsupported",
           "UserError", "UserErrorType"]


class UserErrorType(enum.Enum):
    """Reasons why a program cannot be exported."""

    DYNAMIC_CONTROL_FLOW, ANTI_PATTERN, STANDARD_LIBRARY, CONSTRAINT_VIOLATION, DYNAMIC_DIM, \
        INVALID_INPUT, INVALID_OUTPUT, UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = range(8)


class TorchDynamoException(RuntimeError):
    """Base class: the program cannot become a graph."""


class Unsupported(TorchDynamoException):
    """The program cannot become graphs even in part."""


class UserError(Unsupported):
    """The program must be rewritten. `msg`: the text; `error_type`: the reason."""

    def __init__(self, error_type: UserErrorType, msg: str, case_name: str | None = None,
                 **options: Any) -> None:
        super().__init__(msg)
        self.error_type, self.msg, self.case_name = error_type, msg, case_name


class GuardOnDataDependentSymNode(UserError):
    """The program branches on a tensor's value."""

    def __init__(self, msg: str) -> None:
        super().__init__(UserErrorType.ANTI_PATTERN, msg)


class ArchiveError(RuntimeError):
    """The file is not an archive, is damaged, or calls something graphs may not call."""
