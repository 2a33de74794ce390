"""Errors of programs that no graph can hold, by PyTorch's names."""

from __future__ import annotations

__all__ = ["TorchDynamoException", "Unsupported", "UserError"]


class TorchDynamoException(RuntimeError):
    """A program cannot become a graph."""


class Unsupported(TorchDynamoException):
    """Nor can it in part."""


class UserError(Unsupported):
    """The program has to be written otherwise."""
