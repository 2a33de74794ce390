"""Checks of the recorded graph."""
