"""Followed calls: Python runs every time, and a compiled program computes its operators."""
