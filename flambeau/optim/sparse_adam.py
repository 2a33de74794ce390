"""SparseAdam: Adam for the rows that a sparse gradient touches."""

from __future__ import annotations

from collections.abc import Callable

from flambeau.autograd import no_grad
from flambeau.tensor import Tensor

from .optimizer import Optimizer, ParamsT, check_single


class SparseAdam(Optimizer):
    """Adam for sparse gradients, which flambeau does not have: `step` meets dense ones only.

    Raises ValueError for options out of range, and for complex parameters.

    >>> weight = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.SparseAdam([weight], lr=0.1)
    >>> weight.grad = torch.tensor([2.0])
    >>> optimizer.step()
    Traceback (most recent call last):
        ...
    RuntimeError: SparseAdam does not support dense gradients, please consider Adam instead
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
        places = [
            (index, place, p)
            for index, group in enumerate(self.param_groups)
            for place, p in enumerate(group["params"])
        ]
        sparse = [[index, place] for index, place, p in places if p.is_sparse]
        if sparse:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
            )
        complex_ones = [[index, place] for index, place, p in places if p.is_complex()]
        if complex_ones:
            raise ValueError(
                f"Complex params at indices {complex_ones}: SparseAdam does not support complex "
                "parameters"
            )

    @no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """RuntimeError for dense gradients, NotImplementedError for sparse ones."""
        loss = self._flambeau_loss_of(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not p.grad.is_sparse:
                    raise RuntimeError(
                        "SparseAdam does not support dense gradients, please consider Adam instead"
                    )
                raise NotImplementedError("SparseAdam.step: sparse gradients")
        return loss
