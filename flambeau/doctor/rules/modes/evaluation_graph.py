"""Evaluation that records a graph."""

from __future__ import annotations

import weakref
from typing import Any

from ...events import Backward, ModuleCall
from ...finding import Level
from ...graph import get_node
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_MIN_ALIVE = 8


class EvaluationGraph(Rule):
    """Follows the outputs of models in evaluation mode that have a graph and no backward pass."""

    id = "eval-records-graph"
    level = Level.HINT
    needs = ("on_call",)
    title = "predictions are computed with gradients enabled: each keeps its graph in memory"
    why = (
        "eval() does not disable gradients. Without torch.no_grad() each output keeps all "
        f"activations alive. Likely if {_MIN_ALIVE} outputs with their graphs are alive, otherwise "
        "a hint."
    )
    fix = "with torch.no_grad(): around the evaluation"
    broken = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
net.eval()
outputs = []
for xb in x.split(4):
    outputs.append(net(xb))  # <-
"""
    fixed = edit(broken, {
        "for xb in x.split(4):":
            "with torch.no_grad():\n    for xb in x.split(4):\n        outputs.append(net(xb))",
        "outputs.append(net(xb))  # <-": "",
    })
    healthy = ("""
# The graph is used: gradients of the inputs, in evaluation mode.
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).eval()
for xb in x.split(4):
    image = xb.clone().requires_grad_()
    net(image).sum().backward()
""", """
# Nothing that could have a gradient.
net = nn.Linear(8, 3).requires_grad_(False).eval()
outputs = [net(xb) for xb in x.split(4)]
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.nodes: list[Any] = []
        self.first: Any = None

    def on_call(self, call: ModuleCall) -> None:
        output = call.output[0] if isinstance(call.output, tuple) and call.output else call.output
        node = get_node(getattr(output, "_node", None))
        if not call.recorded or call.module.training or node is None:
            return
        if self.first != call.spot:
            self.nodes, self.first = [], call.spot
        self.nodes.append(weakref.ref(node))
        alive = sum(reference() is not None for reference in self.nodes)
        if alive >= _MIN_ALIVE:
            self.report(f"{alive} outputs of a model in evaluation mode keep their graphs",
                        call.spot, level=Level.LIKELY, **{"graphs alive": alive})
        elif len(self.nodes) == 2 * _MIN_ALIVE:
            self.report("a model in evaluation mode records a graph that nobody uses", call.spot,
                        calls=len(self.nodes))

    def on_backward(self, backward: Backward) -> None:
        self.nodes.clear()

    on_gradient = on_backward

    def on_slope(self, spots: tuple[Spot, ...]) -> None:
        """Gradients of inputs, as an attack takes them, use the graphs too."""
        self.nodes.clear()
