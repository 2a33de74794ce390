"""The warning of `torch.jit.trace`."""

__all__ = ["TracerWarning"]


class TracerWarning(Warning):
    """A trace may be wrong for other inputs, or differs from its program."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Do nothing: the library's own lines cause no such warnings."""
