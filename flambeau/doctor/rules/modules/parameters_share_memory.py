"""Two parameters that share the same memory."""

from __future__ import annotations

from typing import Any

from ....nn.parameter import Parameter
from ...events import Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule


class ParametersShareMemory(Rule):
    """Compares the addresses of an optimizer's parameters at its first step."""

    id = "parameters-share-memory"
    level = Level.CERTAIN
    needs = ("on_step",)
    title = "a weight is tied through a new Parameter on the same memory: it is updated twice"
    why = (
        "nn.Parameter(other.weight) is a second parameter on the same memory: each has its own "
        "part of the gradient and its own optimizer state, and both updates change the same "
        "numbers. Not reported if one parameter has two names."
    )
    fix = "tie by assignment: head.weight = embedding.weight"
    broken = """
first, second = nn.Linear(8, 8), nn.Linear(8, 8)
second.weight = nn.Parameter(first.weight)  # <-
optimizer = optim.Adam([*first.parameters(), *second.parameters()])
for _ in range(3):
    loss = second(first(x)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "second.weight = nn.Parameter(first.weight)  # <-":
            "second.weight = first.weight\n"
            "optimizer = optim.Adam(nn.ModuleList([first, second]).parameters())",
        "optimizer = optim.Adam([*first.parameters(), *second.parameters()])": "",
    })
    healthy = ("""
# A copy at the start, trained on its own.
first, second = nn.Linear(8, 8), nn.Linear(8, 8)
second.weight = nn.Parameter(first.weight.detach().clone())
optimizer = optim.Adam([*first.parameters(), *second.parameters()])
loss = second(first(x)).pow(2).mean()
loss.backward()
optimizer.step()
""", """
# Parts of one flat piece of memory, none of which overlap.
flat = torch.randn(72)
weight, bias = nn.Parameter(flat[:64].view(8, 8)), nn.Parameter(flat[64:])
optimizer = optim.Adam([weight, bias])
loss = F.linear(x, weight, bias).pow(2).mean()
loss.backward()
optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.origins: dict[int, Spot | None] = {}

    def on_parameter(self, parameter: Any, source: Any, spot: Spot | None) -> None:
        self.session.follow(parameter)
        self.origins[id(parameter)] = spot

    def on_data_set(self, tensor: Any, spot: Spot | None) -> None:
        if isinstance(tensor, Parameter):
            self.on_parameter(tensor, None, spot)

    def on_step(self, update: Update) -> None:
        if update.number != 1:
            return
        first_at: dict[tuple[int, Any], Any] = {}
        for parameter in update.params:
            array = parameter._array
            key = (array.ctypes.data, array.shape)
            first = first_at.setdefault(key, parameter)
            if first is not parameter and array.size > 1 and parameter.requires_grad:
                names = self.session.parameter_names([first, parameter])
                spots = [self.origins.get(id(parameter)), self.origins.get(id(first)), update.spot]
                self.report(f"{names} share the same memory", *spots,
                            elements=int(array.size))
