"""Checks of saved, loaded and averaged state."""
