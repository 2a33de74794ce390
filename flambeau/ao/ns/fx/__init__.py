"""torch.ao.ns.fx: the parts of the numeric suite on graphs."""
