"""Prove that a step's Python may be skipped by watching CPython run one call of it."""
