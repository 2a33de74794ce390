"""Reports on a prepared model that suggest how to quantize it."""
