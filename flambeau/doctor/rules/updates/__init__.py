"""Checks of gradients and of the steps that use them."""
