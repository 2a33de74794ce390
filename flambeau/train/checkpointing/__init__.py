"""Checkpoints, the thread that writes them, and exact resume."""
