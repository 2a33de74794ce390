"""Reductions, scans, sorting and statistics along dimensions."""
