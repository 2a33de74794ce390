"""torch.distributed.elastic: start, watch and restart groups of workers."""
