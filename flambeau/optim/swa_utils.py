"""Weight averaging: AveragedModel, averaging rules, SWALR and update_bn."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from .. import ops
from ..autograd import no_grad
from ..nn.module import Module
from ..tensor import Tensor
from .lr_scheduler.scheduler import LRScheduler, expand_to_groups, warn_outside_step
from .optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable:
    """Return the list rule `mean = decay * mean + (1 - decay) * new`. ValueError outside [0, 1].

    >>> means = [torch.tensor([1.0]), torch.tensor([3.0])]
    >>> rule = torch.optim.swa_utils.get_ema_multi_avg_fn(decay=0.9)
    >>> rule(means, [torch.tensor([2.0]), torch.tensor([3.0])], 5)
    >>> means
    [tensor([1.1000]), tensor([3.])]
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(means: Sequence[Tensor], news: Sequence[Tensor], count: Any) -> None:
        for mean, new in zip(means, news, strict=True):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(new, 1 - decay)
            else:
                mean.copy_(mean * decay + new * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable:
    """Return the rule `mean += (new - mean) / (count + 1)` on lists: equal weights.

    >>> means = [torch.tensor([1.0])]
    >>> torch.optim.swa_utils.get_swa_multi_avg_fn()(means, [torch.tensor([4.0])], 2)
    >>> means
    [tensor([2.])]
    """

    @no_grad()
    def swa_update(means: Sequence[Tensor], news: Sequence[Tensor], count: Any) -> None:
        weight = 1 / (float(count) + 1)
        for mean, new in zip(means, news, strict=True):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(new, weight)
            else:
                mean.copy_(mean + (new - mean) * weight)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable:
    """Return the rule `decay * mean + (1 - decay) * new`. Raises ValueError outside [0, 1].

    >>> rule = torch.optim.swa_utils.get_ema_avg_fn(decay=0.9)
    >>> rule(torch.tensor(1.0), torch.tensor(2.0), 5)
    tensor(1.1000)
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(mean: Tensor, new: Tensor, count: Any) -> Tensor:
        return decay * mean + (1 - decay) * new

    return ema_update


def get_swa_avg_fn() -> Callable:
    """Return the rule `mean + (new - mean) / (count + 1)`: equal weights.

    >>> torch.optim.swa_utils.get_swa_avg_fn()(torch.tensor(1.0), torch.tensor(4.0), 2)
    tensor(2.)
    """

    @no_grad()
    def swa_update(mean: Tensor, new: Tensor, count: Any) -> Tensor:
        return mean + (new - mean) / (count + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages over training (Izmailov et al., 2018,
    arXiv:1803.05407).

    `update_parameters` adds the model's current parameters to the average. The rule is
    `avg_fn(mean, new, count)`, `multi_avg_fn` on lists, or equal weights. With `use_buffers`
    buffers are averaged too, else copied. Raises AssertionError if both rules are given.

    >>> net = torch.nn.Linear(1, 1, bias=False)
    >>> average = torch.optim.swa_utils.AveragedModel(net)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = torch.nn.init.constant_(net.weight, value)
    ...     average.update_parameters(net)
    >>> average.module.weight.item()
    3.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None,
        multi_avg_fn: Callable[[Sequence[Tensor], Sequence[Tensor], Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", ops.tensor(0, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the averaged model."""
        return self.module(*args, **kwargs)

    def _list_averaged(self, model: Module) -> list[Tensor]:
        if self.use_buffers:
            return [t.detach() for t in itertools.chain(model.parameters(), model.buffers())]
        return [t.detach() for t in model.parameters()]

    def update_parameters(self, model: Module) -> None:
        """Add the parameters of `model` to the averages. The first call copies them."""
        means = self._list_averaged(self.module)
        news = [
            new.to(mean.device)
            for mean, new in zip(means, self._list_averaged(model), strict=False)
        ]
        if not self.n_averaged:
            for mean, new in zip(means, news, strict=True):
                mean.copy_(new)
        elif self.avg_fn is None:
            self._update_lists(means, news)
        else:
            for mean, new in zip(means, news, strict=True):
                mean.copy_(self.avg_fn(mean, new, self.n_averaged.to(mean.device)))
        if not self.use_buffers:
            for average, source in zip(self.module.buffers(), model.buffers(), strict=True):
                average.detach().copy_(source.detach().to(average.device))
        self.n_averaged += 1

    def _update_lists(self, means: list[Tensor], news: list[Tensor]) -> None:
        """Apply the list rule once per dtype and device."""
        alike: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
        for mean, new in zip(means, news, strict=True):
            pair = alike.setdefault((mean.device, mean.dtype), ([], []))
            pair[0].append(mean)
            pair[1].append(new)
        rule = self.multi_avg_fn or get_swa_multi_avg_fn()
        for (device, _), (some_means, some_news) in alike.items():
            rule(some_means, some_news, self.n_averaged.to(device))


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of batch normalization in one pass over `loader`.

    If a batch is a list or tuple, its first item is the model's input.

    >>> net = torch.nn.BatchNorm1d(1)
    >>> loader = [torch.tensor([[0.], [2.]]), torch.tensor([[4.], [6.]])]
    >>> torch.optim.swa_utils.update_bn(loader, net)
    >>> net.running_mean
    tensor([3.])
    """
    from ..nn.modules.batchnorm import _BatchNorm

    momenta = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        module.momentum = None  # a plain average over all batches
    for batch in loader:
        if isinstance(batch, (list, tuple)):
            batch = batch[0]
        model(batch if device is None else batch.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals from the current rate to `swa_lr` in `anneal_epochs` epochs, then stays constant.

    `anneal_strategy` is "cos" or "linear". Raises ValueError for another, or unless `anneal_epochs`
    is a nonnegative integer.

    >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    >>> scheduler = torch.optim.swa_utils.SWALR(optimizer, 0.5, 2, anneal_strategy="linear")
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr()[0])
    ...     optimizer.step()
    ...     scheduler.step()
    1.0
    0.75
    0.5
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = expand_to_groups("swa_lr", optimizer, swa_lr)
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """Return the fraction of the annealing done at a step."""
        t = max(0, min(1, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self) -> list[float | Tensor]:
        """Return the rates of this epoch."""
        warn_outside_step(self)
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        previous_share, share = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            # Recover the start from the current rate: other schedulers may have changed it.
            start = end if previous_share == 1 else (group["lr"]
                                                     - previous_share * end) / (1 - previous_share)
            rates.append(end * share + start * (1 - share))
        return rates
