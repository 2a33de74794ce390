"""Calls of the operators by which losses and norms push tangents: only forward mode meets them."""

from __future__ import annotations

import flambeau
from flambeau.tensor import Tensor


def push_tangents(x: Tensor) -> None:
    """The derivative of each loss and norm of a matrix of three columns, in one direction."""
    f = flambeau.nn.functional
    target = flambeau.zeros_like(x)
    for function in (
        lambda x: f.mse_loss(x, target), lambda x: f.smooth_l1_loss(x, target),
        lambda x: f.huber_loss(x, target), lambda x: f.layer_norm(x, (3,)),
        lambda x: f.batch_norm(x, None, None, training=True),
    ):
        flambeau.func.jvp(function, (x,), (flambeau.ones_like(x),))
