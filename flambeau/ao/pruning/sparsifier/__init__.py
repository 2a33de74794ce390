"""Sparsifiers: what a mask keeps."""
