"""Special functions: gamma, Bessel, error function, entropy, orthogonal polynomials."""
