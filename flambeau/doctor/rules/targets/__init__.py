"""Checks of the targets that losses are given."""
