"""Report of `checkpoint(debug=True)` on a mismatch: operators and stack traces of both runs."""

from __future__ import annotations

import traceback
from contextlib import AbstractContextManager
from typing import Any

from ..tensor import Tensor
from ._python_dispatch import TorchDispatchMode

_TEMPLATE = """ \
An error happened while unpacking tensors; dumping logs of latest computation
because you passed `debug=True` to `torch.utils.checkpoint.checkpoint()`.
Scroll all the way down for guidance on how to navigate these logs.

+~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~+
|        1. Stack traces of the operators that ran in the original forward     |
+------------------------------------------------------------------------------+

{forward_traces}
+~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~+
|        2. Stack traces of the operators that ran during recomputation        |
+------------------------------------------------------------------------------+

{recompute_traces}
+~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~+
|       3. Log of operators in the original forward and recomputation          |
+------------------------------------------------------------------------------+
(Scroll up to correlate stack traces with each operation listed below. This
 helps identify their source in the code.)

IMPORTANT: Differences in "detach" calls between the original forward and the
           recomputation are expected. They are introduced by the checkpointing
           mechanism and can be ignored.

Operations executed during the original forward:

{forward_ops}

Operations executed during recomputation:

{recompute_ops}

+------------------------------------------------------------------------------+
 ERROR: Detected non-determinism while running activation checkpointing

 You are seeing this error because you passed `debug=True` to checkpoint and
 tensors to be saved during the original forward and differ between those saved
 during recomputation. This can happen if different operators were ran in the
 original forward and in the recomputation.

 To identify where the mismatch may be coming from, you can do the following:

 1) Compare the operators ran during original forward and recomputation to
    see where they differ. These operators are printed above in the order they
    were executed.

 2) Review the stack trace for each operator to locate its invocation source.
    Each operator's stack trace is printed in their execution order.

 Note that the logs can be quite long. Here's how they are structured:
 (Tip: you can Ctrl-f for these headers)

 1. Stack traces of the operators that ran in the original forward
 2. Stack traces of the operators that ran during recomputation
 3. Log of operators in the original forward and recomputation
 4. Error message                                             <--- You are here
--------------------------------------------------------------------------------
"""


class _Log(TorchDispatchMode):
    """Records each operator of a run and its stack, innermost frame first."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.stacks: list[list[str]] = []
        self.numbers: dict[int, int] = {}
        self.tensors: list[Tensor] = []  # kept alive so that ids stay unique

    def _name(self, value: Any) -> str:
        if not isinstance(value, Tensor):
            return repr(value)
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.numbers)
            self.tensors.append(value)
        return f"${self.numbers[id(value)]}"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        arguments = [*map(self._name, args), *(f"{k}={self._name(v)}" for k, v in kwargs.items())]
        result = func(*args, **kwargs)
        results = result if isinstance(result, (tuple, list)) else (result,)
        names = ", ".join(self._name(y) for y in results)
        self.lines.append(f"{names} = torch._ops.{func}({', '.join(arguments)})")
        frames = reversed(traceback.extract_stack()[:-1])
        self.stacks.append([f"{f.filename}:{f.lineno}:{f.name}" for f in frames])
        return result

    def traces(self, label: str) -> str:
        """Format every operator with its stack."""
        entries = [
            f"{line}   ({i} of {len(self.lines)} in {label})\n\n" + "\n".join(stack) + "\n\n\n"
            for i, (line, stack) in enumerate(zip(self.lines, self.stacks, strict=True), 1)
        ]
        return "".join(entries)


class CheckpointDebugLogs:
    """The operator logs of a region's two runs."""

    def __init__(self) -> None:
        self._forward, self._again = _Log(), _Log()

    def contexts(self) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        """Return the contexts of the first and the second run."""
        return self._forward, self._again

    def __str__(self) -> str:
        return _TEMPLATE.format(
            forward_traces=self._forward.traces("original"),
            recompute_traces=self._again.traces("recompute"),
            forward_ops="\n".join(self._forward.lines),
            recompute_ops="\n".join(self._again.lines),
        )
