"""Traces: what a profile records while it is on, and the formats it is exported in."""
