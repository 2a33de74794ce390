"""Checks of a new program against the call that it was recorded from."""
