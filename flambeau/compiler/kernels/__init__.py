"""Fusion groups as loop nests of the loop IR."""
