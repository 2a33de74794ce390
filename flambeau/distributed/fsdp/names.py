"""Names of parameters as programs know them, without the prefixes that wrappers add."""

WRAPPED = "_fsdp_wrapped_module"
FSDP_PREFIX = WRAPPED + "."
_CHECKPOINT_PREFIX = "_checkpoint_wrapped_module."


def clean_tensor_name(tensor_name: str) -> str:
    """Remove the prefixes of FullyShardedDataParallel and of activation checkpointing.

    >>> from flambeau.distributed.fsdp.names import clean_tensor_name
    >>> clean_tensor_name("_fsdp_wrapped_module.layer._fsdp_wrapped_module.weight")
    'layer.weight'
    """
    return tensor_name.replace(FSDP_PREFIX, "").replace(_CHECKPOINT_PREFIX, "")
