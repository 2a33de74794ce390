"""Decide when to record a call and when to build, check, use and drop its program."""
