"""Observers of losses: each call of a loss function with its input, target and arguments."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...autograd.mode import MODE
from ...tensor.tensor import Tensor
from ..events import LossCall
from ..places import find_spot
from . import Observer
from .calls import Call, Report, report_after

if TYPE_CHECKING:
    from ..session import Session

LOSSES = (
    "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "gaussian_nll_loss",
    "poisson_nll_loss", "soft_margin_loss", "hinge_embedding_loss", "multilabel_soft_margin_loss",
    "multi_margin_loss", "ctc_loss", "cosine_embedding_loss", "margin_ranking_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
)
# Parameters that are not called "input" and "target".
_INPUT_NAMES = {"ctc_loss": "log_probs", "cosine_embedding_loss": "input1",
                "margin_ranking_loss": "input1", "triplet_margin_loss": "anchor",
                "triplet_margin_with_distance_loss": "anchor"}
_TARGET_NAMES = {"ctc_loss": "targets", "triplet_margin_loss": "positive",
                 "triplet_margin_with_distance_loss": "positive"}


def iterate_targets(session: Session) -> Iterator[tuple[Any, Observer]]:
    """Yield the loss functions to patch, with their observers."""
    functional = importlib.import_module("flambeau.nn.functional")
    for name in LOSSES:
        function = getattr(functional, name, None)
        if function is not None:
            report = _create_report(name, list(inspect.signature(function).parameters))
            yield function, report_after(session, report, name)


def _create_report(name: str, parameters: list[str]) -> Report:
    input_name = _INPUT_NAMES.get(name, "input")
    target_name = _TARGET_NAMES.get(name, "target")

    def report_loss(session: Session, call: Call) -> None:
        arguments = {**dict(zip(parameters, call.args, strict=False)), **call.kwargs}
        value = arguments.get(input_name)
        if isinstance(value, Tensor):
            module = session.stack[-1] if session.stack else None
            session.emit("on_loss", LossCall(
                name, value, arguments.get(target_name), arguments, call.result, find_spot(),
                module, MODE.grad,
            ))

    return report_loss
