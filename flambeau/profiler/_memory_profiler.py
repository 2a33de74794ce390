"""torch.profiler._memory_profiler: PyTorch's path of the profiles of memory."""

from __future__ import annotations

from .memory.categories import Category as Category, CategoryDict as CategoryDict
from .memory.data_flow import (
    DataFlowEdge as DataFlowEdge, DataFlowGraph as DataFlowGraph, DataFlowNode as DataFlowNode,
    OpTree as OpTree, SizeMap as SizeMap,
)
from .memory.memory_profile import (
    Action as Action, MemoryProfile as MemoryProfile, TensorAndID as TensorAndID,
)
from .memory.memory_timeline import MemoryProfileTimeline as MemoryProfileTimeline
from .memory.schema_matcher import SchemaMatcher as SchemaMatcher
from .memory.tensor_keys import (
    TensorKey as TensorKey, extract_gradients as extract_gradients,
    extract_parameters as extract_parameters, get_scopes as get_scopes,
)
