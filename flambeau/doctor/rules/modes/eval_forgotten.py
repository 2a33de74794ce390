"""Evaluation with dropout and batch statistics on."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...events import Backward, LossCall, ModuleCall
from ...finding import Level
from ...graph import get_node
from ...places import Spot
from ...programs import edit
from ...source import is_statement
from ..rule import Rule


def find_active_layers(module: Any) -> list[str]:
    """Return the names of layers in training mode whose behavior eval mode would change."""
    names = []
    for path, layer in module.named_modules():
        class_name = type(layer).__name__
        if not layer.training:
            continue
        if ("Dropout" in class_name and getattr(layer, "p", 0) > 0) or (
            "BatchNorm" in class_name and getattr(layer, "track_running_stats", False)
        ):
            names.append(f"{path} ({class_name})" if path else class_name)
    return names


def _return_no_output() -> None:
    """What a weak reference to nothing gives."""


def _create_reference(output: Any) -> Any:
    return weakref.ref(output) if isinstance(output, Tensor) else _return_no_output


@dataclass
class _Model:
    """What is known of a model that was called."""

    module: Any
    loaded: bool = False  # from a state that is no other model's memory
    # Some of its numbers at the first lone call.
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    trained: int = -1  # the backward pass that last came from it
    explicit: int = -1  # the backward pass after which train() was called
    calls: int = 0  # in a row, without gradients, since it was last trained
    spot: Spot | None = None
    inputs: tuple[np.ndarray, ...] = ()
    unused: Any = None  # a weak reference to the node of the output before
    argmax: bool = False  # whether argmax of that was taken
    looked: int = 0  # calls in a row whose graph nobody used
    lone: int = 0  # calls without gradients since it was last trained, other models' passes between
    lone_spot: Spot | None = None
    lone_at: int = -1


_LONE = 8


def _sample_weights(module: Any) -> np.ndarray:
    """Some numbers of a module's first parameter."""
    array: np.ndarray = next((p._array.reshape(-1)[:64].copy() for p in module.parameters()),
                             np.zeros(0))
    return array


class EvalForgotten(Rule):
    """Follows calls without gradients of models that are being trained."""

    id = "eval-forgotten"
    level = Level.LIKELY
    needs = ("on_call", "evaluation")
    title = "a model is evaluated in training mode: dropout is active, batch norm uses the batch"
    why = (
        "Reported for a trained model with Dropout or BatchNorm when it is called without "
        "gradients twice in a row, or its output goes to a loss; with gradients, when argmax is "
        "all that is done with its outputs. Not reported after an explicit train() (Monte Carlo "
        "dropout), if nothing is done with the output (recalibrated statistics), for repeated "
        "inputs, or for single calls between updates (pseudo-labels, a GAN's samples), unless the "
        f"model is no longer trained or was only loaded, like a teacher: then after {_LONE} of "
        "them."
    )
    fix = "model.eval() before the evaluation, model.train() after it"
    broken = """
net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3))
optimizer = optim.Adam(net.parameters())
for epoch in range(3):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for xb in torch.randn(32, 8).split(16):
            prediction = net(xb).argmax(1)  # <-
"""
    fixed = edit(broken, {
        "for epoch in range(3):": "for epoch in range(3):\n    net.train()",
        "optimizer.step()": "optimizer.step()\nnet.eval()",
        "prediction = net(xb).argmax(1)  # <-": "prediction = net(xb).argmax(1)",
    })
    healthy = ("""
# Pseudo-labels of a second batch, between updates: in training mode, as is usual.
net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
optimizer = optim.Adam(net.parameters())
for _ in range(6):
    with torch.no_grad():
        labels = net(x + 0.1 * torch.randn_like(x)).argmax(1)
    loss = F.cross_entropy(net(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Monte Carlo dropout: training mode was asked for.
net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3))
optimizer = optim.Adam(net.parameters())
for _ in range(3):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
net.train()
with torch.no_grad():
    spread = torch.stack([net(x) for _ in range(8)]).std(0)
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.models: dict[int, _Model] = {}
        self.last: _Model | None = None
        self.latest: _Model | None = None
        self.output: Any = _return_no_output  # the latest output, weakly

    def on_mode(self, module: Any, training: bool, spot: Spot | None) -> None:
        if training:
            model = self.models.setdefault(id(module), _Model(module))
            model.explicit = self.session.clock.passes

    def on_load(self, module: Any, state: Any, strict: bool, spot: Spot | None) -> None:
        living = {id(p._array) for root in list(self.session.roots) if root is not module
                  for p in root.parameters()}
        values = list(state.values()) if hasattr(state, "values") else []
        model = self.models.setdefault(id(module), _Model(module))
        model.loaded = all(id(getattr(v, "_array", None)) not in living for v in values)

    def on_call(self, call: ModuleCall) -> None:
        model = self.models.setdefault(id(call.module), _Model(call.module))
        if call.recorded:
            self._note_training_call(model, call)
            return
        self.session.seen.add("evaluation")
        if is_statement(call.spot):  # called to update its statistics
            return
        if model.trained < 0 and not model.loaded or not call.backwards \
                or not call.module.training or model.explicit >= call.backwards:
            return
        if call.backwards > model.lone_at:
            model.weights = _sample_weights(model.module) if not model.lone else model.weights
            model.lone, model.lone_spot, model.lone_at = model.lone + 1, call.spot, call.backwards
        if model.trained < 0:
            return
        arrays = tuple(tensor._array for tensor in call.tensors)
        repeated = any(
            a.shape == b.shape and np.array_equal(a, b)
            for a, b in zip(arrays, model.inputs, strict=False)
        )
        model.inputs = arrays
        if repeated and model.spot == call.spot:
            model.calls = -10  # sampled from, on purpose
            return
        model.calls = model.calls + 1 if model.spot == call.spot or not model.calls else 1
        model.spot, self.last = call.spot, model
        self.output = _create_reference(call.output)
        if model.calls >= 2:
            self._tell(model)

    def _note_training_call(self, model: _Model, call: ModuleCall) -> None:
        """Note a call with gradients. It trains, unless the program only reads the output."""
        is_unused_output = model.spot == call.spot and model.unused is not None \
            and model.unused() is None
        model.looked = model.looked + 1 if is_unused_output and model.argmax else 0
        model.argmax, model.unused = False, None
        node = get_node(getattr(call.output, "_node", None))
        if node is not None:
            model.unused = weakref.ref(node)
        if model.looked >= 2 and model.trained >= 0 and model.explicit < call.backwards:
            self._tell(model)
        if model.looked == 0:
            model.trained, model.lone = call.backwards, 0
        model.calls, model.inputs, model.spot = 0, (), call.spot
        self.latest, self.output = model, _create_reference(call.output)

    def on_cut(self, method: str, tensor: Any, spot: Spot | None) -> None:
        if method == "argmax()" and tensor is self.output() and self.latest is not None:
            self.latest.argmax = True

    def on_loss(self, call: LossCall) -> None:
        model = self.last
        if call.recorded or model is None or model.calls < 1:
            return
        output = self.output()
        if output is not None and (call.input is output or call.input._array.base is output._array):
            self._tell(model)

    def on_backward(self, backward: Backward) -> None:
        self.last = self.latest = None
        self.output = _return_no_output
        for model in self.models.values():
            model.calls, model.inputs = 0, ()
            model.argmax, model.looked, model.unused = False, 0, None

    on_gradient = on_backward

    def finish(self) -> None:
        """Report models that were trained and from then on only computed targets of others."""
        for model in self.models.values():
            rested = self.session.clock.passes - model.trained
            is_unchanged = model.trained >= 0 or np.array_equal(
                _sample_weights(model.module), model.weights
            )
            if model.lone >= _LONE and is_unchanged and rested >= 2 * _LONE:
                model.spot = model.lone_spot
                self._tell(model)

    def _tell(self, model: _Model) -> None:
        layers = find_active_layers(model.module)
        if layers:
            name = self.session.name_of(model.module, "the model")
            self.report(f"{name} is evaluated in training mode", model.spot,
                        fix=f"{name}.eval() before the evaluation, {name}.train() after it",
                        layers=layers[:3])
