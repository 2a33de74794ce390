"""torch.utils.bottleneck: where a script spends its time, by Python function and by operator."""
