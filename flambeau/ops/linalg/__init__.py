"""Linear algebra: products, decompositions, solves and matrix functions."""
