"""torch.jit.annotations: names that TorchScript recognizes in annotations.

`BroadcastingList2[int]` accepts a scalar or a list of two; it has no effect in Python.
"""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035  # its public names

from ..tensor.absent import make_absent_getattr

__all__ = [
    "Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "List",
    "Optional", "Tuple", "Union",
]

__getattr__ = make_absent_getattr(__name__, (
    "ann_to_type", "get_signature", "try_ann_to_type", "try_real_annotations",
))


class _BroadcastingList:
    def __getitem__(self, kind: Any) -> None:
        """Return None: the annotation has no meaning in Python."""


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
