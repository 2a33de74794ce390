"""Windows: stand-ins for a tensor's NumPy array that are not dense memory or not yet computed."""
