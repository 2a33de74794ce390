"""scatter and gather: split a batch over GPUs, and join the results.

flambeau has no GPUs: values without tensors are repeated for each device, tensors are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tensor import Tensor


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Repeat `inputs` for each device, inside dicts, lists and tuples too.

    Raises RuntimeError for a tensor, which would be split along `dim`: there is no GPU.

    >>> nn.parallel.scatter((1, "a"), [0, 1])
    [(1, 'a'), (1, 'a')]
    """
    if isinstance(inputs, Tensor):
        error = RuntimeError("Cannot access accelerator device when none is available.")
        error.add_note("torch.chunk(input, len(devices), dim) splits a tensor on the CPU.")
        raise error
    if isinstance(inputs, tuple) and hasattr(inputs, "_fields"):
        return [type(inputs)(*elements) for elements in _scatter_each(inputs, target_gpus, dim)]
    if isinstance(inputs, (tuple, list)) and inputs:
        cls = tuple if isinstance(inputs, tuple) else list
        return [cls(elements) for elements in _scatter_each(inputs, target_gpus, dim)]
    if isinstance(inputs, dict) and inputs:
        return [type(inputs)(elements)
                for elements in _scatter_each(inputs.items(), target_gpus, dim)]
    return [inputs for _ in target_gpus]


def _scatter_each(values: Any, target_gpus: Sequence[Any], dim: int) -> Any:
    return zip(*(scatter(value, target_gpus, dim) for value in values), strict=False)


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any],
    dim: int = 0,
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Scatter arguments and keywords; pad the shorter list with () or {}.

    >>> nn.parallel.scatter_gather.scatter_kwargs((1,), {"k": 2}, [0, 1])
    (((1,), (1,)), ({'k': 2}, {'k': 2}))
    """
    positional = scatter(inputs, target_gpus, dim) if inputs else []
    keywords = scatter(kwargs, target_gpus, dim) if kwargs else []
    positional += [() for _ in range(len(keywords) - len(positional))]
    keywords += [{} for _ in range(len(positional) - len(keywords))]
    return tuple(positional), tuple(keywords)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Join tensors of several GPUs along `dim`, inside dicts, lists and tuples too.

    Raises AssertionError for tensors, which lie on the CPU, and ValueError for dicts of
    different lengths.

    >>> nn.parallel.gather([None, None], "cpu") is None
    True
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        error = AssertionError("Gather function not implemented for CPU tensors")
        error.add_note("torch.cat(outputs, dim) joins tensors on the CPU.")
        raise error
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(first) != len(output) for output in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)(
            (key, gather([output[key] for output in outputs], target_device, dim)) for key in first
        )
    columns = [gather(column, target_device, dim) for column in zip(*outputs, strict=True)]
    return type(first)(*columns) if hasattr(first, "_fields") else type(first)(columns)
