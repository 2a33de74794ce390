"""One training step: plain, accumulated, compiled, supervised."""
