"""Scheduling: the order of kernels, memory planning, and programs as plain data."""
