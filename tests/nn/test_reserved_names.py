"""Names that a user may give to attributes: all that PyTorch's classes leave free.

Whatever flambeau's classes have beside PyTorch's starts with `_flambeau_`.
"""

from __future__ import annotations

import importlib
import inspect

import pytest

import flambeau
from flambeau import nn

OURS = "_flambeau_"
FAMILIES = {
    "nn": "Module", "optim": "Optimizer", "optim.lr_scheduler": "LRScheduler",
    "distributions": "Distribution", "utils.data": "Dataset",
}


def test_attributes_of_users_are_theirs():
    """An LSTM's forget gate, a metric's table of states."""

    class Gates(nn.Module):
        def __init__(self):
            super().__init__()
            self._forget = nn.Linear(2, 2)
            self._persistent = {}
            self._hooks_of = self._unexpected = None

        def forward(self, x):
            return self._forget(x)

    gates = Gates()
    assert gates(torch_ones()).shape == (1, 2)
    gates.load_state_dict(gates.state_dict())
    assert list(gates.state_dict()) == ["_forget.weight", "_forget.bias"]


def torch_ones():
    return flambeau.ones(1, 2)


def test_attributes_of_a_context_are_the_users():
    class Scaled(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.outputs, ctx.saved, ctx.edges, ctx.plan, ctx.hooks = 5, 3, [1], "p", None
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            assert (ctx.outputs, ctx.saved, ctx.edges, ctx.plan) == (5, 3, [1], "p")
            assert ctx.needs_input_grad == (True,)
            return g * 2 * x

    x = flambeau.ones(2, requires_grad=True)
    y = Scaled.apply(x)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parity
@pytest.mark.parametrize("space", FAMILIES)
def test_classes_have_no_names_beside_pytorchs(space):
    torch = pytest.importorskip("torch")
    theirs = importlib.import_module(f"torch.{space}")
    ours = importlib.import_module(f"flambeau.{space}")
    base = getattr(ours, FAMILIES[space])
    extra = {}
    for name, cls in vars(ours).items():
        if inspect.isclass(cls) and issubclass(cls, base) and hasattr(theirs, name):
            names = set(dir(cls)) - set(dir(getattr(theirs, name)))
            names = {n for n in names if not n.startswith(OURS) and not n.endswith("__")}
            extra.update({name: sorted(names)} if names else {})
    extra = {k: names for k, names in extra.items() if names != ["_flat_weights"]}  # on instances
    if space == "distributions":  # an exponential family's, in more classes than PyTorch's
        known = {n for cls in vars(theirs).values() if inspect.isclass(cls) for n in dir(cls)}
        extra = {k: left for k, names in extra.items() if (left := set(names) - known)}
    assert torch.__version__
    assert not extra
