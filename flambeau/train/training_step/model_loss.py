"""Losses that depend on more than output and target: the model's loss, and weighted losses."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ... import ops
from ...nn.module import Module
from ...tensor.tensor import Tensor

_TARGETS = ("labels", "label", "targets", "target", "y")


def find_loss(output: Any) -> Tensor | None:
    """Return the loss in a model's output: its attribute or entry `loss`, or a scalar output.

    Models of transformers return a loss if the batch has labels.
    """
    if isinstance(output, Tensor):
        return output if output.ndim == 0 else None
    if isinstance(output, Mapping):
        return output.get("loss")
    loss = getattr(output, "loss", None)
    if loss is None and isinstance(output, tuple) and output:
        return find_loss(output[0])
    return loss


def find_output_loss(output: Any, target: Any) -> Tensor:
    """What trains a net without a loss function. Raises ValueError for an output without a loss."""
    loss = find_loss(output)
    if loss is None:
        raise ValueError(
            "training needs a loss: Trainer(net, optimizer, loss), a net whose output has one "
            "(`output.loss`), or a custom step (@trainer.step)"
        )
    return loss


def find_predictions(output: Any) -> Any:
    """What metrics compare with the target: the logits of an output that has a loss as well."""
    if isinstance(output, Mapping):
        return output.get("logits", output)
    return getattr(output, "logits", output)


def split_mapping(batch: Mapping[str, Any], model_has_loss: bool) -> tuple[dict[str, Any], Any]:
    """Named inputs and the target. A model that computes its loss gets its target too."""
    name = next((name for name in _TARGETS if name in batch), None)
    inputs = {key: value for key, value in batch.items() if model_has_loss or key != name}
    if name is None and not model_has_loss:
        raise ValueError(
            f"a dict batch needs a target under one of {', '.join(_TARGETS)}; it has "
            f"{', '.join(map(str, batch))}"
        )
    return inputs, None if name is None else batch[name]


def weigh_classes(loss: Callable[..., Any], weights: Any) -> Callable[..., Any]:
    """The loss with a weight for each class: a tensor, a list, or {class: weight}.

    Raises TypeError for a loss that takes no `weight`.
    """
    if isinstance(weights, Mapping):
        weights = [float(weights.get(label, 1.0)) for label in range(max(weights) + 1)]
    weight = weights if isinstance(weights, Tensor) else ops.tensor(weights)
    if isinstance(loss, Module):
        if not hasattr(loss, "weight"):
            raise TypeError(f"class_weight: {type(loss).__name__} takes no weight")
        twin = type(loss).__new__(type(loss))
        twin.__dict__.update(loss.__dict__)
        twin._buffers = {**loss._buffers, "weight": weight}
        return twin
    if "weight" not in inspect.signature(loss).parameters:
        raise TypeError(f"class_weight: {getattr(loss, '__name__', loss)} takes no weight")
    return functools.partial(loss, weight=weight)


def weigh_samples(loss: Callable[..., Any]) -> Callable[..., Any]:
    """The weighted mean of a loss over samples: its target is (y, weight).

    `loss` is a function or module with `reduction`, or one that returns a number for each sample.
    """
    if isinstance(loss, Module) and hasattr(loss, "reduction"):
        unreduced: Callable[..., Any] = type(loss).__new__(type(loss))
        vars(unreduced).update({**loss.__dict__, "reduction": "none"})
    elif "reduction" in inspect.signature(loss).parameters:
        unreduced = functools.partial(loss, reduction="none")
    else:
        unreduced = loss

    def weighted(output: Any, target: tuple[Any, Tensor]) -> Tensor:
        y, weight = target
        losses = unreduced(output, y)
        if losses.ndim > 1:  # (batch, ...) -> (batch,)
            losses = losses.flatten(1).mean(1)
        return (losses * weight).sum() / weight.sum()

    return weighted
