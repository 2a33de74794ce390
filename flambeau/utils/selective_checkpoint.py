"""Selective checkpointing: save the results of some operators and recompute the others.

In the first run a dispatch mode stores the results of the selected operators. In the second run
another mode returns them by the numbers of their calls, so that only the others are recomputed.
https://pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ..tensor import Tensor
from ..tensor.storage import get_version
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map


class CheckpointPolicy(enum.Enum):
    """A policy's decision for an operator's result. MUST and PREFER differ only in a compiler.

    >>> torch.utils.checkpoint.CheckpointPolicy.MUST_SAVE.name
    'MUST_SAVE'
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4


class SelectiveCheckpointContext:
    """Context of a policy call: whether this is the recomputation.

    >>> torch.utils.checkpoint.SelectiveCheckpointContext(is_recompute=True).is_recompute
    True
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


Policy = Callable[..., Any]
# By operator: for each call a _Saved result or a _Mark.
SavedResults = dict[Any, list[Any]]


class _Saved:
    """A detached result. `value` checks that it was not modified since."""

    def __init__(self, result: Any) -> None:
        self.versions: list[tuple[Tensor, int]] = []
        self.val = tree_map(self._detach, result)

    def _detach(self, x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        result = x.detach()
        self.versions.append((result, get_version(result)))
        return result

    def value(self, allow_mutation: bool) -> Any:
        """Return the result as new detached tensors."""
        if not allow_mutation and any(get_version(x) != version for x, version in self.versions):
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated")
        return tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, self.val)


def _is_saved(policy: Any) -> bool:
    if isinstance(policy, bool):
        return policy
    return policy in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE,
                      CheckpointPolicy.MUST_CPU_OFFLOAD)


class _Mark(enum.Enum):
    """Placeholder of a result: the policy's decision, or that it was returned."""

    RECOMPUTE = 0
    CONSUMED = 1


# The two runs detach different numbers of tensors.
_UNCOUNTED = "aten.detach.default"
_MISMATCH = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend "
    "on global state that changed between forward and backward."
)


class _CachingTorchDispatchMode(TorchDispatchMode):
    """Stores, for each call of an operator, its result or that the policy recomputes it."""

    def __init__(self, policy: Policy, storage: SavedResults) -> None:
        super().__init__()
        self.policy, self.storage = policy, storage

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if str(func) == _UNCOUNTED:
            return result
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        is_saved = _is_saved(self.policy(context, func, *args, **kwargs))
        self.storage[func].append(_Saved(result) if is_saved else _Mark.RECOMPUTE)
        return result


class _CachedTorchDispatchMode(TorchDispatchMode):
    """Returns an operator's saved results in the order of its calls. The policy was asked in the
    first run; it is a parameter for subclasses written for earlier versions of PyTorch."""

    def __init__(self, policy: Policy, storage: SavedResults, allow_mutation: bool = False) -> None:
        super().__init__()
        self.storage, self.allow_mutation = storage, allow_mutation
        self.calls: dict[Any, int] = defaultdict(int)

    def __enter__(self) -> Any:
        self.calls.clear()
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if str(func) == _UNCOUNTED:
            return func(*args, **kwargs or {})
        index = self.calls[func]
        self.calls[func] += 1
        entries = self.storage.get(func)
        if entries is None:
            raise RuntimeError(
                f"{func} encountered during backward but not found in storage. {_MISMATCH}")
        if index >= len(entries):
            raise RuntimeError(f"{func} invocation index {index} encountered during backward but "
                               f"not found in storage. {_MISMATCH}")
        entry = entries[index]
        if entry is _Mark.RECOMPUTE:
            return func(*args, **kwargs or {})
        if entry is _Mark.CONSUMED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any "
                "region computed under selective activation checkpoint."
            )
        entries[index] = _Mark.CONSUMED
        return entry.value(self.allow_mutation)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | list[Any], allow_cache_entry_mutation: bool = False
) -> tuple[TorchDispatchMode, TorchDispatchMode]:
    """Return the contexts of a checkpointed region's two runs, for `checkpoint`'s `context_fn`.

    `policy_fn_or_list`: the operators (of torch.ops.aten) whose results are saved, or a function
    `policy(context, operator, *args, **kwargs)` that returns a CheckpointPolicy. Raises ValueError
    for an operator without overload; RuntimeError in backward if a saved tensor was modified,
    unless `allow_cache_entry_mutation`.

    >>> import functools
    >>> kept = [torch.ops.aten.mm.default]
    >>> contexts = functools.partial(
    ...     torch.utils.checkpoint.create_selective_checkpoint_contexts, kept)
    >>> x = torch.ones(2, 2, requires_grad=True)
    >>> torch.utils.checkpoint.checkpoint(
    ...     lambda x: (x @ x).sin().sum(), x, use_reentrant=False, context_fn=contexts).backward()
    >>> x.grad
    tensor([[-1.6646, -1.6646],
            [-1.6646, -1.6646]])
    """
    if isinstance(policy_fn_or_list, list):
        for operator in policy_fn_or_list:
            if "_overloadname" not in getattr(operator, "__dict__", ()):
                fix = ("Please update the OpOverloadPacket to a specific OpOverload.For example, "
                       "if you have `torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                       ) if hasattr(operator, "overloads") else ""
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {operator} of type "
                    f"{type(operator)}. {fix}"
                )
        chosen = list(policy_fn_or_list)

        def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
            return CheckpointPolicy.MUST_SAVE if operator in chosen \
                else CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    retained: SavedResults = defaultdict(list)
    return _CachingTorchDispatchMode(policy, retained), _CachedTorchDispatchMode(
        policy, retained, allow_cache_entry_mutation)
