"""torch._dynamo.exc: errors of programs that no graph can hold."""

from ..export.errors import TorchDynamoException, Unsupported, UserError

__all__ = ["TorchDynamoException", "Unsupported", "UserError"]
