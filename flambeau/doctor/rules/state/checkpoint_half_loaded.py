"""A checkpoint of which the optimizer's state is loaded and not the model's, or the reverse."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...events import Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ...source import parse_file
from ..rule import Rule

_CHECKPOINTS = 8


@dataclass
class _Checkpoint:
    spot: Spot | None
    models: list[Mapping[str, Tensor]] = field(default_factory=list)
    optimizers: list[Mapping[str, Any]] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)  # keys of whole numbers, such as the epoch
    model_spot: Spot | None = None  # where a model's state was loaded
    has_model: bool = False
    has_optimizer: bool = False


class CheckpointHalfLoaded(Rule):
    """Compares what torch.load gave with what is loaded before the next update."""

    id = "checkpoint-half-loaded"
    level = Level.LIKELY
    needs = ("on_checkpoint", "on_step")
    title = "only the optimizer's state, or only the model's, is loaded from a checkpoint"
    why = (
        "Optimizer state of a trained model meets new weights, or the reverse: Adam starts with "
        "empty averages. Reported at the first update after torch.load returned both states. A "
        "missing optimizer state is reported only if its groups and shapes match the new "
        "optimizer and the program continues from the checkpoint's epoch or step. Not reported if "
        "only weights are read, to fine-tune or evaluate them."
    )
    fix = (
        'model.load_state_dict(checkpoint["model"]) and '
        'optimizer.load_state_dict(checkpoint["optimizer"])'
    )
    broken = """
import io
def train(net, optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = optim.Adam(net.parameters(), lr=0.01)
train(net, optimizer)
file = io.BytesIO()
torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, file)
file.seek(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = optim.Adam(net.parameters(), lr=0.01)
checkpoint = torch.load(file)
optimizer.load_state_dict(checkpoint["optimizer"])  # <-
train(net, optimizer)
"""
    fixed = edit(broken, {
        'optimizer.load_state_dict(checkpoint["optimizer"])  # <-':
            'net.load_state_dict(checkpoint["net"])\n'
            'optimizer.load_state_dict(checkpoint["optimizer"])',
    })
    healthy = (edit(broken, {
        # Weights to fine-tune: the optimizer is to begin anew.
        'optimizer.load_state_dict(checkpoint["optimizer"])  # <-':
            'net.load_state_dict(checkpoint["net"])',
    }), edit(broken, {
        # Weights that are copied by hand.
        'optimizer.load_state_dict(checkpoint["optimizer"])  # <-':
            'optimizer.load_state_dict(checkpoint["optimizer"])\n'
            "for name, p in net.named_parameters():\n"
            '    p.data.copy_(checkpoint["net"][name])',
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.checkpoints: list[_Checkpoint] = []
        # By optimizer: the checkpoint that its state is of, and the line that loaded it.
        self.pending: dict[int, tuple[_Checkpoint, Spot | None]] = {}

    def on_checkpoint(self, state: Any, spot: Spot | None) -> None:
        if not isinstance(state, Mapping):
            return
        result = _Checkpoint(spot)
        for key, value in _iterate_entries(state):
            if isinstance(value, int) and not isinstance(value, bool):
                result.counters.append(key)
            elif isinstance(value, Mapping) and {"state", "param_groups"} <= set(value):
                result.optimizers.append(value)
            elif isinstance(value, Mapping) and value \
                    and all(isinstance(v, Tensor) for v in value.values()):
                result.models.append(value)
        if result.models and result.optimizers:
            self.checkpoints = [*self.checkpoints[1 - _CHECKPOINTS:], result]

    def on_load(self, module: Any, state: Any, strict: bool, spot: Spot | None) -> None:
        if not isinstance(state, Mapping):
            return
        supplied = {id(value) for value in state.values()}
        for checkpoint in self.checkpoints:
            if any(id(v) in supplied for model in checkpoint.models for v in model.values()):
                checkpoint.has_model, checkpoint.model_spot = True, spot

    def on_optimizer_load(self, optimizer: Any, state: Any, spot: Spot | None) -> None:
        for checkpoint in self.checkpoints:
            if any(state is stored for stored in checkpoint.optimizers):
                checkpoint.has_optimizer = True
                if state["state"]:
                    self.session.follow(optimizer)
                    self.pending[id(optimizer)] = checkpoint, spot

    def on_step(self, update: Update) -> None:
        pending = self.pending.pop(id(update.optimizer), None)
        if pending is not None:
            checkpoint, spot = pending
            if not checkpoint.has_model and not _resembles(update.params, checkpoint.models):
                name = self.session.name_of(update.optimizer, "the optimizer")
                self.report(f"{name} continues from a checkpoint whose weights are not loaded",
                            spot, checkpoint.spot)
        elif update.number == 1:
            for checkpoint in self.checkpoints:
                if checkpoint.has_model and not checkpoint.has_optimizer \
                        and _resumes(checkpoint) and any(
                            _is_same(update.optimizer, stored) for stored in checkpoint.optimizers):
                    checkpoint.has_optimizer = True
                    self.report("the model continues from a checkpoint whose optimizer state "
                                "is not loaded", checkpoint.model_spot, checkpoint.spot,
                                self.session.optimizers.get(update.optimizer))


def _iterate_entries(state: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The values of a checkpoint, and those of a mapping within it."""
    for key, value in state.items():
        yield str(key), value
        if isinstance(value, Mapping) and "param_groups" not in value:
            yield from ((str(name), entry) for name, entry in value.items()
                        if isinstance(entry, Mapping))


def _resembles(parameters: list[Tensor], models: list[Mapping[str, Tensor]]) -> bool:
    """Whether some weights are those of a checkpoint, however they came here."""
    stored = [value._array for model in models for value in model.values()]
    return any(
        p._array.shape == array.shape and np.array_equal(p._array, array)
        for p in parameters if p._array.ndim > 1 for array in stored
    )


def _resumes(checkpoint: _Checkpoint) -> bool:
    """Whether the program reads the epoch or step of a checkpoint."""
    tree = parse_file(checkpoint.spot[0].co_filename) if checkpoint.spot is not None else None
    return any(
        isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
        and isinstance(node.slice, ast.Constant) and node.slice.value in checkpoint.counters
        for node in (ast.walk(tree) if tree is not None else ())
    )


def _is_same(optimizer: Any, state: Mapping[str, Any]) -> bool:
    """Whether a stored state fits an optimizer: its groups, rates and the shapes of its moments."""
    groups = state["param_groups"]
    if not state["state"] or len(groups) != len(optimizer.param_groups):
        return False
    for current, stored in zip(optimizer.param_groups, groups, strict=True):
        rates = [group.get("initial_lr", group.get("lr")) for group in (current, stored)]
        if len(current["params"]) != len(stored["params"]) or rates[0] != rates[1]:
            return False
        for parameter, index in zip(current["params"], stored["params"], strict=True):
            moments = [v for v in state["state"].get(index, {}).values()
                       if isinstance(v, Tensor) and v.dim()]
            if any(v.shape != parameter.shape for v in moments):
                return False
    return True
