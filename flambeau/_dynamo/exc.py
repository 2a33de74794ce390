"""torch._dynamo.exc: errors of programs that no graph can hold."""

from ..export.errors import TorchDynamoException, Unsupported, UserError, UserErrorType

__all__ = ["TorchDynamoException", "Unsupported", "UserError", "UserErrorType"]
