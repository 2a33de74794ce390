"""A layer with parameters that no call uses."""

from __future__ import annotations

from typing import Any

from ...events import ModuleCall, Update
from ...finding import Level
from ...programs import edit
from ...source import find_body
from ..rule import Rule

_STEPS = 8


class UnusedLayer(Rule):
    """Looks for layers of a network that is trained, which never ran and whose parameters never
    had a gradient."""

    id = "layer-never-used"
    level = Level.LIKELY
    needs = ("on_step", "on_call")
    title = "a layer is created in __init__ and is in the optimizer, but forward never uses it"
    why = (
        "Usually it was forgotten, or another layer was used in its place. Reported at the end, "
        f"after {_STEPS} updates, for layers that are attributes whose name occurs in no method "
        "but __init__. Not reported for layers in lists and dicts, which may be selected "
        "dynamically, or for layers mentioned in a branch."
    )
    fix = "use it in forward, or remove it from __init__"
    broken = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)  # <-
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        h = torch.relu(self.first(x))
        return self.head(torch.relu(h))

net = Net()
optimizer = optim.Adam(net.parameters())
for _ in range(9):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "self.second = nn.Linear(8, 8)  # <-": "self.second = nn.Linear(8, 8)",
        "return self.head(torch.relu(h))": "return self.head(torch.relu(self.second(h)))",
    })
    healthy = ("""
# A head for another task, used when it is asked for.
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)
        self.second_head = nn.Linear(8, 2)

    def forward(self, x, second=False):
        h = torch.relu(self.body(x))
        return self.second_head(h) if second else self.head(h)

net = Net()
optimizer = optim.Adam(net.parameters())
for _ in range(9):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""", """
# The layer's weight is used without a call of the layer.
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(8, 8)
        self.body = nn.Linear(8, 8)

    def forward(self, x):
        return self.body(x) @ self.embedding.weight.T

net = Net()
optimizer = optim.Adam(net.parameters())
for _ in range(9):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.used: set[int] = set()  # parameters that had a gradient
        self.steps: dict[int, int] = {}  # of each parameter that were seen

    def on_call(self, call: ModuleCall) -> None:
        """Handle the event so that the check counts as judged."""

    def on_step(self, update: Update) -> None:
        for parameter in update.params:
            self.steps[id(parameter)] = self.steps.get(id(parameter), 0) + 1
        self.used.update(id(p) for p in update.params if p._grad is not None)

    def finish(self) -> None:
        for root in list(self.session.roots):
            for owner in root.modules():
                if type(owner).__module__.startswith("flambeau.") or owner._modules is None:
                    continue
                for name, layer in owner._modules.items():
                    if layer is not None and self._is_unused(layer) and _is_forgotten(owner, name):
                        self.report(
                            f"{type(owner).__name__}.{name} is never used",
                            self.session.built_at.get(layer),
                            parameters=sum(p._array.size for p in layer.parameters()),
                        )

    def _is_unused(self, layer: Any) -> bool:
        trainable = [p for p in layer.parameters() if p.requires_grad]
        return bool(trainable) and all(
            id(p) in self.session.optimized and id(p) not in self.used
            and self.steps.get(id(p), 0) >= _STEPS for p in trainable
        )


def _is_forgotten(owner: Any, name: str) -> bool:
    """Whether only the constructor of a class mentions an attribute, and no method iterates over
    all."""
    uses = {name, "children", "modules", "named_children", "named_modules", "_modules",
                  "getattr", "__dict__", "get_submodule"}
    for cls in type(owner).__mro__:
        if cls.__module__.startswith("flambeau."):
            break
        for function in vars(cls).values():
            function = getattr(function, "fget", None) or getattr(function, "__func__", function)
            function = _unwrap_decorators(function)
            code = getattr(function, "__code__", None)
            if code is None or code.co_name == "__init__":
                continue
            if find_body(code.co_filename, code) is None:
                return False
            if uses & {*code.co_names, *_collect_names(code)}:
                return False
    return True


def _unwrap_decorators(function: Any) -> Any:
    """The function that decorators were put around, as functools.wraps notes it."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def _collect_names(code: Any) -> set[str]:
    result: set[str] = set()
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            result |= {*constant.co_names} | _collect_names(constant)
    return result
