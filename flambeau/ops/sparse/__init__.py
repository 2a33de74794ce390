"""Operators on sparse tensors. `entry` is imported with flambeau, the rest at first use."""
