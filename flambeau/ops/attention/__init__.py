"""Scaled dot-product attention and multi-head attention."""
