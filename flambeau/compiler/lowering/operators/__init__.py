"""Lowerings written by hand, where the traced body would be a poor graph."""
