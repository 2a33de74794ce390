"""Comparisons of derivatives with finite differences, for `gradcheck`."""
