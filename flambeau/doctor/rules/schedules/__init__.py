"""Checks of learning-rate schedules."""
