"""PowerSGD: compress each gradient matrix to two low-rank factors by power iteration.

Vogels, Karimireddy, Jaggi: PowerSGD, NeurIPS 2019 (https://arxiv.org/abs/1905.13727).
"""

from __future__ import annotations

from typing import Any

from .... import linalg, ops
from ....futures import Future
from ....tensor import Tensor
from ....tensor.random.generator import Generator
from ... import collectives
from ...data_parallel.bucket import GradBucket
from ...process_group import require_member
from . import default_hooks

__all__ = ["PowerSGDState", "powerSGD_hook"]


class PowerSGDState:
    """State of the hook: the last step's compression errors, which are added to the next gradients,
    and the last factors, which start the next iteration.

    The first `start_powerSGD_iter` steps send full gradients. After that a matrix is compressed to
    rank `matrix_approximation_rank` if this sends at least `min_compression_rate` times less.
    """

    def __init__(
        self, process_group: Any, matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000, min_compression_rate: float = 2,
        use_error_feedback: bool = True, warm_start: bool = True,
        orthogonalization_epsilon: float = 0, random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError("Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or "
                             "`warm_start` is enabled, because PowerSGD can only be applied after "
                             "the first two iterations in DDP.")
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.generator = Generator()
        self.generator.manual_seed(random_seed)
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[tuple[int, int], Tensor] = {}
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a step when its last bucket arrives."""
        if bucket.is_last():
            self.iter += 1


def _average(group: Any, tensor: Tensor) -> Tensor:
    tensor = tensor.contiguous()
    collectives.all_reduce(tensor, group=group)
    return tensor.div_(require_member(group).size())


def _is_compressible(gradient: Tensor, state: PowerSGDState) -> bool:
    if gradient.dim() < 2:
        return False
    rows = gradient.shape[0]
    columns = gradient.numel() // rows
    rank = min(rows, columns, state.matrix_approximation_rank)
    return (rows + columns) * rank * state.min_compression_rate < rows * columns


def _approximate(state: PowerSGDState, key: tuple[int, int], matrix: Tensor) -> Tensor:
    """Return the mean of `matrix` over the processes as a product of low-rank factors."""
    rows, columns = matrix.shape
    rank = min(rows, columns, state.matrix_approximation_rank)
    q = state.q_memory_dict.get(key) if state.warm_start else None
    if q is None:
        q = ops.randn(columns, rank, generator=state.generator).to(matrix.dtype)
    q = linalg.qr(q).Q
    p = _average(state.process_group, matrix @ q)
    p = linalg.qr(p).Q
    q = _average(state.process_group, matrix.t() @ p)
    if state.warm_start:
        state.q_memory_dict[key] = q
    return p @ q.t()


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """Average the gradients, in low rank from step `start_powerSGD_iter` on."""
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return default_hooks.allreduce_hook(state.process_group, bucket)
    buffer, index = bucket.buffer(), bucket.index()
    if state.use_error_feedback and index in state.error_dict:
        buffer.add_(state.error_dict[index])
    before = buffer.clone()
    for i, gradient in enumerate(bucket.gradients()):
        if _is_compressible(gradient, state):
            matrix = gradient.reshape(gradient.shape[0], -1)
            gradient.copy_(_approximate(state, (index, i), matrix).reshape(gradient.shape))
        else:
            gradient.copy_(_average(state.process_group, gradient.clone()))
            if state.use_error_feedback:
                start = gradient.storage_offset()
                before[start : start + gradient.numel()] = gradient.reshape(-1)
    if state.use_error_feedback:
        state.error_dict[index] = before.sub_(buffer)
    state.maybe_increase_iter(bucket)
    future = Future()
    future.set_result(buffer)
    return future
