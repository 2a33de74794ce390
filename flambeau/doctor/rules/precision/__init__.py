"""Checks of number ranges: NaN, scaled gradients."""
