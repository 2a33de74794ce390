"""Checks of data, labels and random numbers."""
