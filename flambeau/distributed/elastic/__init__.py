"""torch.distributed.elastic: groups of workers that are started, watched and started again."""
