"""Inline caches of followed calls: generated code that compares a call and creates its results."""
