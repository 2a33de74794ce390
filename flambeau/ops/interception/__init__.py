"""Interception: temporarily replaces functions' code, for vmap, forward mode, modes and profiles.

The original code is restored afterwards, so there is no overhead while nothing is intercepted.
"""
