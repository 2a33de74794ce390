"""Checks of sequences: tokens, masks, states."""
