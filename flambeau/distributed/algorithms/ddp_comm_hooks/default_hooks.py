"""Hooks that all-reduce a bucket in full or half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....futures import Future
from ....tensor import Tensor
from ....tensor.dtypes import bfloat16, float16
from ... import collectives
from ...data_parallel.bucket import GradBucket
from ...process_group import require_member

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook",
    "fp16_compress_wrapper", "noop_hook",
]


def _average(group: Any, tensor: Tensor) -> Future:
    """Return a future of the tensor's mean over the processes. Overwrites the tensor."""
    tensor.div_(require_member(group).size())
    work = collectives.all_reduce(tensor, group=group, async_op=True)
    assert work is not None
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Average the gradients in full precision, as DDP does without a hook."""
    return _average(process_group, bucket.buffer())


def _compress(process_group: Any, bucket: GradBucket, dtype: Any) -> Future:
    buffer = bucket.buffer()

    def expand(future: Future) -> Tensor:
        buffer.copy_(future.value())
        return buffer

    return _average(process_group, buffer.to(dtype)).then(expand)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Average the gradients in float16: half the bytes, 11 bits of precision."""
    return _compress(process_group, bucket, float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Average the gradients in bfloat16: half the bytes, 8 bits of precision."""
    return _compress(process_group, bucket, bfloat16)


def noop_hook(_: Any, bucket: GradBucket) -> Future:
    """Skip communication, to measure what it costs."""
    future = Future()
    future.set_result(bucket.buffer())
    return future


def _wrap_hook(hook: Callable[[Any, GradBucket], Future], dtype: Any) -> Callable[..., Future]:
    def wrapped(state: Any, bucket: GradBucket) -> Future:
        bucket.set_buffer(bucket.buffer().to(dtype))
        return hook(state, bucket)

    return wrapped


def fp16_compress_wrapper(hook: Callable[[Any, GradBucket], Future]) -> Callable[..., Future]:
    """Wrap `hook` to receive gradients rounded to float16."""
    return _wrap_hook(hook, float16)


def bf16_compress_wrapper(hook: Callable[[Any, GradBucket], Future]) -> Callable[..., Future]:
    """Wrap `hook` to receive gradients rounded to bfloat16."""
    return _wrap_hook(hook, bfloat16)
