"""A small problem for optimizers: parameters of three shapes, and gradients that repeat."""

from __future__ import annotations

import numpy as np

import flambeau as torch

STEPS = 12  # beyond the steps after which the compiled path takes over


def parameters(seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    shapes = [(4, 3), (3,), (2, 3, 2)]
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


def gradients(step, values):
    rng = np.random.default_rng(100 + step)
    return [rng.standard_normal(v.shape).astype(v.dtype) for v in values]


def leaf(value):
    return torch.from_numpy(value.copy()).requires_grad_()


def run(optimizer, leaves, steps=STEPS, first=0):
    for step in range(first, first + steps):
        for p, g in zip(leaves, gradients(step, [p.detach().numpy() for p in leaves]), strict=True):
            p.grad = torch.from_numpy(g)
        optimizer.step()
