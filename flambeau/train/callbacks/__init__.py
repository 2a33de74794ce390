"""Callbacks that change a training: schedules, clipping, early stopping, averaging."""
