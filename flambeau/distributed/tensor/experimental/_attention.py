"""torch.distributed.tensor.experimental._attention: PyTorch's names of context parallelism."""

from ....tensor.absent import make_absent_getattr
from .context_attention import context_parallel, set_rotate_method
from .sequence_shards import OPTIONS as _cp_options
from .sequence_shards import HeadTailLoadBalancer as _HeadTailLoadBalancer
from .sequence_shards import LoadBalancer as _LoadBalancer
from .sequence_shards import RotateMethod as _RotateMethod
from .sequence_shards import context_parallel_shard as _context_parallel_shard
from .sequence_shards import context_parallel_unshard

__all__ = [
    "_HeadTailLoadBalancer", "_LoadBalancer", "_RotateMethod", "_context_parallel_shard",
    "_cp_options", "context_parallel", "context_parallel_unshard", "set_rotate_method",
]

__getattr__ = make_absent_getattr(__name__, (
    "_CausalBehavior", "_ContextParallel", "_PTRRLoadBalancer", "_PerDocumentHeadTailLoadBalancer",
    "_disable_context_parallel_dispatcher", "_enable_context_parallel_dispatcher",
    "_is_causal_behavior", "_templated_ring_attention",
))
