"""Checks of modules: what they own, how they are called."""
