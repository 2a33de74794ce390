"""Operators that make tensors: filled, random, copied, converted, or from Python's data."""
