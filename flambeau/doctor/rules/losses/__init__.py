"""Checks of what losses are given."""
