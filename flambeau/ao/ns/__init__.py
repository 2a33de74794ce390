"""torch.ao.ns: the numeric suites, which compare a quantized model with its float model."""
