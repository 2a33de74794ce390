"""Followed calls: Python runs, operators are listed, and a program computes the list."""
