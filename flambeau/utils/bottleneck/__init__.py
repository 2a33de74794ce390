"""torch.utils.bottleneck: profile a script by Python function and by operator."""
