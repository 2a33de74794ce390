"""Profiles of memory: who reads and writes each tensor, what it is for, and when it lives."""
