"""Run a program: guards, inputs, gradient buffers and committed results."""
