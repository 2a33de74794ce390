"""Layers in a Python list or dict, which their module does not register."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from ....nn.module import Module
from ....tensor.tensor import Tensor
from ...events import Backward, ModuleCall
from ...finding import Level, Place
from ...places import place_of
from ...programs import edit
from ...source import parse_file
from ..rule import Rule


def _find_assignment(module: Any, name: str) -> Place | None:
    """Return the first line from the module's __init__ on that assigns `self.name`."""
    code = getattr(type(module).__init__, "__code__", None)
    tree = None if code is None else parse_file(code.co_filename)
    if code is None or tree is None:
        return None
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.lineno < code.co_firstlineno:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Attribute) and target.attr == name for target in targets):
            return Place(code.co_filename, node.lineno, type(module).__qualname__)
    return None


def _list_hidden_modules(module: Any) -> Iterator[tuple[str, list[Any]]]:
    """Return the attributes that hold modules in plain containers: (name, the modules)."""
    for name, value in list(vars(module).items()):
        if name.startswith("_") or not isinstance(value, (list, tuple, dict)):
            continue
        items = value.values() if isinstance(value, dict) else value
        modules = [element for element in items if isinstance(element, Module)]
        if modules:
            yield name, modules


class HiddenInList(Rule):
    """Looks for modules in lists, tuples and dicts whose parameters get gradients."""

    id = "modules-in-a-list"
    level = Level.CERTAIN
    needs = ("on_call", "on_backward")
    title = "layers in a Python list are not part of the module: parameters() does not include them"
    why = (
        "Their parameters reach neither an optimizer nor state_dict nor .to(device). Reported "
        "when they got gradients, or when a tensor with requires_grad=True that is not a "
        "Parameter did. Not reported if the layers are registered elsewhere or are in an "
        "optimizer."
    )
    fix = "nn.ModuleList([...]), nn.ModuleDict({...}), nn.Parameter(...)"
    broken = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(8, 8), nn.Linear(8, 8)]  # <-
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)

net = Net()
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "self.layers = [nn.Linear(8, 8), nn.Linear(8, 8)]  # <-":
            "self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])",
    })
    healthy = ("""
# The list only gives another order to layers that are registered.
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 3)
        self.layers = [self.a, self.b]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

net = Net()
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""", """
# Hidden on purpose, so that a teacher is not saved with its student.
class Student(nn.Module):
    def __init__(self, teacher):
        super().__init__()
        self.layer, self.teacher = nn.Linear(8, 3), [teacher.requires_grad_(False)]

    def forward(self, x):
        return F.mse_loss(self.layer(x), self.teacher[0](x))

net = Student(nn.Linear(8, 3))
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    net(x).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.suspects: dict[int, tuple[Any, str, str]] = {}  # by id: module, attribute, contents
        self.checked: set[int] = set()

    def on_call(self, call: ModuleCall) -> None:
        if id(call.module) in self.checked:
            return
        self.checked.add(id(call.module))
        registered = {id(p) for p in call.module.parameters()}
        for module in call.module.modules():
            self._add_suspects(module, registered)

    def _add_suspects(self, module: Any, registered: set[int]) -> None:
        """Remember the parameters and tensors of a module that are not registered."""
        for name, hidden in _list_hidden_modules(module):
            for parameter in (p for child in hidden for p in child.parameters()):
                if id(parameter) not in registered:
                    self.suspects[id(parameter)] = module, name, "layers"
        for name, value in list(vars(module).items()):
            if isinstance(value, Tensor) and value.requires_grad and value.is_leaf \
                    and id(value) not in registered and not name.startswith("_"):
                self.suspects[id(value)] = module, name, "a tensor"

    def after_backward(self, backward: Backward) -> None:
        if not self.suspects or not backward.watched:
            return
        optimized = self.session.optimized
        if not optimized:
            return
        for key, leaf in backward.graph.leaves.items():
            suspect = self.suspects.pop(key, None)
            if suspect is None or not leaf.requires_grad or key in optimized:
                continue
            module, name, contents = suspect
            message = (
                f"self.{name} of {type(module).__name__} holds {contents} that parameters() leaves "
                "out: not trained"
            )
            count = sum(1 for entry in self.suspects.values() if entry[:2] == (module, name)) + 1
            place = _find_assignment(module, name) or place_of(self.session.built_at.get(module))
            fix = "nn.ModuleList or nn.ModuleDict" if contents == "layers" else "nn.Parameter(...)"
            self.report(message, place, backward.spot, fix=f"self.{name} = {fix}",
                        parameters=count)
