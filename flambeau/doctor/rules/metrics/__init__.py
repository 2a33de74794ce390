"""Checks of how predictions are measured."""
