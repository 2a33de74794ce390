"""SparseAdam: Adam that updates only the rows in a sparse gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..autograd import no_grad
from ..tensor import Tensor
from .optimizer import Optimizer, ParamsT, check_single


class SparseAdam(Optimizer):
    """Adam for sparse gradients: moments and parameters change only where the gradient has values.

    Raises ValueError for options out of range, and for complex or sparse parameters.
    https://pytorch.org/docs/stable/generated/torch.optim.SparseAdam.html

    >>> table = torch.nn.Embedding.from_pretrained(torch.ones(3, 1), freeze=False, sparse=True)
    >>> optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> table(torch.tensor([1])).sum().backward()
    >>> optimizer.step()
    >>> table.weight.detach().flatten()
    tensor([1.0000, 0.9000, 1.0000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_single(lr)
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for index in (0, 1):
            if not 0.0 <= betas[index] < 1.0:
                raise ValueError(f"Invalid beta parameter at index {index}: {betas[index]}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        positions = [
            (index, position, p)
            for index, group in enumerate(self.param_groups)
            for position, p in enumerate(group["params"])
        ]
        sparse = [[index, position] for index, position, p in positions if p.is_sparse]
        if sparse:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
            )
        complex_params = [[index, position] for index, position, p in positions if p.is_complex()]
        if complex_params:
            raise ValueError(
                f"Complex params at indices {complex_params}: SparseAdam does not support complex "
                "parameters"
            )

    @no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update the rows that have gradients. Raises RuntimeError for a dense gradient."""
        loss = self._flambeau_loss_of(closure)
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                if not grad.is_sparse:
                    raise RuntimeError(
                        "SparseAdam does not support dense gradients, please consider Adam instead"
                    )
                state = self.state[p]
                if not state:
                    state.update(
                        step=0, exp_avg=ops.zeros_like(p), exp_avg_sq=ops.zeros_like(p))
                state["step"] += 1
                _update_rows(group, state, p, -grad if group["maximize"] else grad)
        return loss


def _update_rows(group: dict[str, Any], state: dict[str, Any], param: Tensor, grad: Tensor) -> None:
    """Apply Adam to the gradient's stored positions; leave other moments unchanged."""
    beta1, beta2 = group["betas"]
    grad = grad.coalesce()
    values = grad._values()
    if not values.numel():
        return

    def at_places(values: Tensor) -> Tensor:
        return ops.sparse_coo_tensor(grad._indices(), values, grad.shape, is_coalesced=True)

    first, second = state["exp_avg"], state["exp_avg_sq"]
    old_first = first.sparse_mask(grad)._values()
    old_second = second.sparse_mask(grad)._values()
    add_first = values.sub(old_first).mul_(1 - beta1)
    add_second = values.pow(2).sub_(old_second).mul_(1 - beta2)
    first.add_(at_places(add_first))
    second.add_(at_places(add_second))
    root = add_second.add_(old_second).sqrt_().add_(group["eps"])
    correction = (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
    param.add_(at_places(-group["lr"] * correction * add_first.add_(old_first).div_(root)))
