"""Checks before the first step, and the resolution of names."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ... import optim
from ...nn import functional
from ...optim import Optimizer
from ..events.suggestions import suggest

if TYPE_CHECKING:
    from ..trainer import Trainer


_SHORT = {
    "bce": "binary_cross_entropy", "bce_with_logits": "binary_cross_entropy_with_logits",
    "ce": "cross_entropy", "mae": "l1_loss",
}
_LOSSES = ("_loss", "cross_entropy", "cross_entropy_with_logits", "kl_div")  # ends of their names


def as_optimizer(optimizer: Any, net: Any) -> Any:
    """An optimizer, or a dict of them; for a name, that optimizer of the net's parameters."""
    if isinstance(optimizer, str):
        known: dict[str, Any] = {name.lower(): kind for name, kind in vars(optim).items()
                 if isinstance(kind, type) and issubclass(kind, Optimizer)}
        known.pop("optimizer", None)
        if optimizer.lower() not in known:
            raise ValueError(f"there is no optimizer '{optimizer}'{suggest(optimizer, known)}")
        if net is None:
            raise ValueError(f"optimizer '{optimizer}' needs a net")
        if not any(True for _ in net.parameters()):
            raise ValueError(f"{type(net).__name__} has no trainable parameters")
        return known[optimizer.lower()](net.parameters())
    if optimizer is None or isinstance(optimizer, Optimizer):
        return optimizer
    if isinstance(optimizer, (list, tuple)):
        optimizer = {f"optimizer_{i}": stored for i, stored in enumerate(optimizer)}
    if isinstance(optimizer, dict) and all(isinstance(o, Optimizer) for o in optimizer.values()):
        return optimizer
    if isinstance(optimizer, type) and issubclass(optimizer, Optimizer):
        name = optimizer.__name__
        raise TypeError(f"optimizer is the class {name}: give {name}(net.parameters(), ...)")
    raise TypeError(
        f"optimizer is a flambeau.optim.Optimizer, a name or a dict of optimizers, got "
        f"{type(optimizer).__name__}"
    )


def as_loss(loss: Any) -> Any:
    """A function (y_pred, y); for a name, that of nn.functional."""
    if isinstance(loss, str):
        known = [name for name in dir(functional) if name.endswith(_LOSSES)]
        for name in (loss, f"{loss}_loss", _SHORT.get(loss)):
            if name in known:
                return getattr(functional, name)
        raise ValueError(f"there is no loss '{loss}' in nn.functional{suggest(loss, known)}")
    if isinstance(loss, type):
        raise TypeError(f"loss is the class {loss.__name__}: give an instance, {loss.__name__}()")
    if loss is not None and not callable(loss):
        raise TypeError(f"loss is a function (y_pred, y), got {type(loss).__name__}")
    return loss


def check_loaded(optimizer: Any, name: str) -> None:
    """Check that an optimizer's loaded state is of its kind. Raises ValueError, since a step would
    fail at the first missing option."""
    for group in getattr(optimizer, "param_groups", ()):
        lacking = [option for option in optimizer.defaults if option not in group]
        if lacking:
            raise ValueError(
                f"the state of '{name}' is not one of {type(optimizer).__name__}: it has no "
                f"{', '.join(lacking)}"
            )


def check_trainable(trainer: Trainer) -> None:
    """Check that the default step has what it needs. Raises ValueError."""
    for name in ("net", "optimizer"):  # a net's output may have the loss
        if getattr(trainer, name) is None:
            article = "an" if name == "optimizer" else "a"
            raise ValueError(
                f"training needs {article} {name}: Trainer(net, optimizer, loss), or a step of "
                "your own (@trainer.step)"
            )
    for optimizer in trainer.optimizers.values():
        if inspect.signature(type(optimizer).step).parameters["closure"].default is None:
            continue
        raise ValueError(
            f"{type(optimizer).__name__} evaluates the loss several times per step: write a "
            "custom step (@trainer.step) with optimizer.step(closure)"
        )
    parameters = list(trainer.net.parameters())
    if not any(parameter.requires_grad for parameter in parameters):
        raise ValueError(
            f"{type(trainer.net).__name__} has no trainable parameters"
            + (f": all {len(parameters)} have requires_grad=False" if parameters else "")
        )
    trained = set(map(id, parameters))
    for optimizer in trainer.optimizers.values():
        if any(id(p) in trained for group in optimizer.param_groups for p in group["params"]):
            return
    raise ValueError(
        f"none of the optimizer's parameters belongs to trainer.net ({type(trainer.net).__name__})"
        ": create the optimizer from net.parameters()"
    )
