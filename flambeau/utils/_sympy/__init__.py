"""torch.utils._sympy: bounds of sizes, which programs that read exported graphs import."""
