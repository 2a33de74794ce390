"""One step of each optimizer on lists of parameters, gradients and state, which it changes.

Optimizers of other libraries call these with state of their own. A step is that of the class, on
tensors that share the parameters' memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...autograd import no_grad
from ...tensor import Tensor
from ..adadelta import Adadelta
from ..adagrad import Adagrad
from ..adam import Adam
from ..adamax import Adamax
from ..adamw import AdamW
from ..asgd import ASGD
from ..nadam import NAdam
from ..radam import RAdam
from ..rmsprop import RMSprop
from ..rprop import Rprop
from ..sgd import SGD
from ..sparse_adam import SparseAdam

__all__ = ["adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop",
           "rprop", "sgd", "sparse_adam"]

Tensors = Sequence[Any]


def _step(
    kind: Any, params: Tensors, grads: Tensors, state: dict[str, Any],
    options: dict[str, Any], differentiable: bool = False,
) -> None:
    """Run one step. `state`: a list for each entry of a parameter's state, or None."""
    if differentiable:
        raise NotImplementedError(
            f"torch.optim._functional.{kind.__name__.lower()}(differentiable=True) is not "
            "implemented in flambeau; the class takes it")
    if not params:
        return
    with no_grad():
        aliases = [p.detach() for p in params]
    optimizer = kind(aliases)
    optimizer.param_groups[0].update(options)
    lists = {name: values for name, values in state.items() if values}
    for i, (alias, grad) in enumerate(zip(aliases, grads, strict=True)):
        alias.grad = grad.detach()
        optimizer.state[alias].update({name: values[i] for name, values in lists.items()})
    optimizer.step()
    for name, values in lists.items():
        for i, alias in enumerate(aliases):
            if values[i] is None:
                values[i] = optimizer.state[alias].get(name)


def _unscale(grads: Tensors, grad_scale: Tensor | None, found_inf: Tensor | None) -> bool:
    """Divide gradients by a loss scale; return whether to skip the step for an infinite one."""
    if found_inf is not None and found_inf.item():
        return True
    if grad_scale is not None:
        with no_grad():
            for grad in grads:
                grad.div_(grad_scale)
    return False


def adadelta(
    params: Tensors, grads: Tensors, square_avgs: Tensors, acc_deltas: Tensors,
    state_steps: Tensors, capturable: bool = False, foreach: bool | None = None,
    differentiable: bool = False, has_complex: bool = False, *, lr: float, rho: float, eps: float,
    weight_decay: float, maximize: bool
) -> None:
    """One step of Adadelta.

    >>> from flambeau.optim.adadelta import adadelta
    >>> p, zeros = torch.ones(1), lambda: [torch.zeros(1)]
    >>> adadelta([p], [torch.ones(1)], zeros(), zeros(), zeros(), lr=1.0, rho=0.9, eps=0.01,
    ...          weight_decay=0.0, maximize=False)
    >>> p
    tensor([0.6985])
    """
    _step(Adadelta, params, grads,
          {"square_avg": square_avgs, "acc_delta": acc_deltas, "step": state_steps},
          {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize},
          differentiable)


def adagrad(
    params: Tensors, grads: Tensors, state_sums: Tensors, state_steps: Tensors,
    fused: bool | None = None, grad_scale: Tensor | None = None, found_inf: Tensor | None = None,
    has_sparse_grad: bool = False, foreach: bool | None = None, differentiable: bool = False,
    has_complex: bool = False, *, lr: float, weight_decay: float, lr_decay: float, eps: float,
    maximize: bool
) -> None:
    """One step of Adagrad."""
    if _unscale(grads, grad_scale, found_inf):
        return
    _step(Adagrad, params, grads, {"sum": state_sums, "step": state_steps},
          {"lr": lr, "weight_decay": weight_decay, "lr_decay": lr_decay, "eps": eps,
           "maximize": maximize}, differentiable)


def adam(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors,
    max_exp_avg_sqs: Tensors, state_steps: Tensors, foreach: bool | None = None,
    capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    grad_scale: Tensor | None = None, found_inf: Tensor | None = None, has_complex: bool = False,
    decoupled_weight_decay: bool = False, *, amsgrad: bool, beta1: float | Tensor,
    beta2: float | Tensor, lr: float | Tensor, weight_decay: float, eps: float, maximize: bool
) -> None:
    """One step of Adam.

    >>> from flambeau.optim.adam import adam
    >>> p, zeros = torch.ones(1), lambda: [torch.zeros(1)]
    >>> step = [torch.tensor(0.0)]
    >>> adam([p], [torch.ones(1)], zeros(), zeros(), [], step, amsgrad=False, beta1=0.9,
    ...      beta2=0.999, lr=0.1, weight_decay=0.0, eps=1e-8, maximize=False)
    >>> p, step
    (tensor([0.9000]), [tensor(1.)])
    """
    if _unscale(grads, grad_scale, found_inf):
        return
    _step(AdamW if decoupled_weight_decay else Adam, params, grads,
          {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "step": state_steps,
           "max_exp_avg_sq": max_exp_avg_sqs},
          {"amsgrad": amsgrad, "betas": (beta1, beta2), "lr": lr, "weight_decay": weight_decay,
           "eps": eps, "maximize": maximize}, differentiable)


def adamw(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors,
    max_exp_avg_sqs: Tensors, state_steps: Tensors, foreach: bool | None = None,
    capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    grad_scale: Tensor | None = None, found_inf: Tensor | None = None, has_complex: bool = False,
    *, amsgrad: bool, beta1: float | Tensor, beta2: float | Tensor, lr: float | Tensor,
    weight_decay: float, eps: float, maximize: bool
) -> None:
    """One step of AdamW."""
    adam(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach, capturable,
         differentiable, fused, grad_scale, found_inf, has_complex, True, amsgrad=amsgrad,
         beta1=beta1, beta2=beta2, lr=lr, weight_decay=weight_decay, eps=eps, maximize=maximize)


def adamax(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_infs: Tensors, state_steps: Tensors,
    foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    capturable: bool = False, has_complex: bool = False, *, eps: float, beta1: float, beta2: float,
    lr: float, weight_decay: float
) -> None:
    """One step of Adamax."""
    _step(Adamax, params, grads,
          {"exp_avg": exp_avgs, "exp_inf": exp_infs, "step": state_steps},
          {"eps": eps, "betas": (beta1, beta2), "lr": lr, "weight_decay": weight_decay,
           "maximize": maximize}, differentiable)


def asgd(
    params: Tensors, grads: Tensors, axs: Tensors, mus: Tensors, etas: Tensors,
    state_steps: Tensors, foreach: bool | None = None, maximize: bool = False,
    differentiable: bool = False, capturable: bool = False, has_complex: bool = False, *,
    lambd: float, lr: float, t0: float, alpha: float, weight_decay: float
) -> None:
    """One step of averaged SGD."""
    _step(ASGD, params, grads, {"ax": axs, "mu": mus, "eta": etas, "step": state_steps},
          {"lambd": lambd, "lr": lr, "t0": t0, "alpha": alpha, "weight_decay": weight_decay,
           "maximize": maximize}, differentiable)


def nadam(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors,
    mu_products: Tensors, state_steps: Tensors, decoupled_weight_decay: bool = False,
    foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
    has_complex: bool = False, maximize: bool = False, *, beta1: float, beta2: float, lr: float,
    weight_decay: float, momentum_decay: float, eps: float
) -> None:
    """One step of NAdam."""
    _step(NAdam, params, grads,
          {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "mu_product": mu_products,
           "step": state_steps},
          {"betas": (beta1, beta2), "lr": lr, "weight_decay": weight_decay,
           "momentum_decay": momentum_decay, "eps": eps, "maximize": maximize,
           "decoupled_weight_decay": decoupled_weight_decay}, differentiable)


def radam(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, state_steps: Tensors,
    decoupled_weight_decay: bool = False, foreach: bool | None = None,
    differentiable: bool = False, capturable: bool = False, has_complex: bool = False,
    maximize: bool = False, *, beta1: float, beta2: float, lr: float, weight_decay: float,
    eps: float
) -> None:
    """One step of RAdam."""
    _step(RAdam, params, grads,
          {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "step": state_steps},
          {"betas": (beta1, beta2), "lr": lr, "weight_decay": weight_decay, "eps": eps,
           "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay},
          differentiable)


def rmsprop(
    params: Tensors, grads: Tensors, square_avgs: Tensors, grad_avgs: Tensors,
    momentum_buffer_list: Tensors, state_steps: Tensors, foreach: bool | None = None,
    maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    has_complex: bool = False, *, lr: float, alpha: float, eps: float, weight_decay: float,
    momentum: float, centered: bool
) -> None:
    """One step of RMSprop."""
    _step(RMSprop, params, grads,
          {"square_avg": square_avgs, "grad_avg": grad_avgs, "step": state_steps,
           "momentum_buffer": momentum_buffer_list},
          {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay,
           "momentum": momentum, "centered": centered, "maximize": maximize}, differentiable)


def rprop(
    params: Tensors, grads: Tensors, prevs: Tensors, step_sizes: Tensors, state_steps: Tensors,
    foreach: bool | None = None, capturable: bool = False, maximize: bool = False,
    differentiable: bool = False, has_complex: bool = False, *, step_size_min: float,
    step_size_max: float, etaminus: float, etaplus: float
) -> None:
    """One step of Rprop."""
    _step(Rprop, params, grads, {"prev": prevs, "step_size": step_sizes, "step": state_steps},
          {"step_sizes": (step_size_min, step_size_max), "etas": (etaminus, etaplus),
           "maximize": maximize}, differentiable)


def sgd(
    params: Tensors, d_p_list: Tensors, momentum_buffer_list: Any, has_sparse_grad: bool = False,
    foreach: bool | None = None, fused: bool | None = None, grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None, *, weight_decay: float, momentum: float, lr: float,
    dampening: float, nesterov: bool, maximize: bool
) -> None:
    """One step of SGD. Buffers that are None are filled in.

    >>> from flambeau.optim.sgd import sgd
    >>> p, buffers = torch.ones(1), [None]
    >>> sgd([p], [torch.ones(1)], buffers, weight_decay=0.0, momentum=0.9, lr=0.5, dampening=0.0,
    ...     nesterov=False, maximize=False)
    >>> p, buffers
    (tensor([0.5000]), [tensor([1.])])
    """
    if _unscale(d_p_list, grad_scale, found_inf):
        return
    _step(SGD, params, d_p_list, {"momentum_buffer": momentum_buffer_list},
          {"weight_decay": weight_decay, "momentum": momentum, "lr": lr, "dampening": dampening,
           "nesterov": nesterov, "maximize": maximize})


def sparse_adam(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors,
    state_steps: Sequence[int], *, eps: float, beta1: float, beta2: float, lr: float,
    maximize: bool
) -> None:
    """One step of SparseAdam. `state_steps` count this step already."""
    _step(SparseAdam, params, grads,
          {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs,
           "step": [step - 1 for step in state_steps]},
          {"eps": eps, "betas": (beta1, beta2), "lr": lr, "maximize": maximize})
