"""The level of launchers' messages."""

__all__ = ["get_log_level"]


def get_log_level() -> str:
    """Return the default level."""
    return "WARNING"
