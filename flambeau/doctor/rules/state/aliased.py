"""A state that was to be kept, and shares its memory with the model."""

from __future__ import annotations

from typing import Any

from ....native.foundation.user_frames import find_user_frame, is_internal
from ...finding import Level, Place
from ...places import Spot, place_of
from ...source import find_loops, list_plain_assignments, read_variable
from ...weak_table import WeakTable
from ..rule import Rule


class AliasedState(Rule):
    """Remembers which state dicts were taken, and compares memory when one is loaded."""

    id = "state-aliased"
    level = Level.CERTAIN
    needs = ("on_load",)
    title = "the state being loaded is the model's own memory: nothing is restored"
    why = (
        "state_dict() returns the parameters themselves. A 'best state' that is not copied "
        "changes with every step and ends up as the last state. Reported when a model loads a "
        "state that shares its own memory and was taken before an update. Not reported for "
        "another model's state."
    )
    fix = "best = copy.deepcopy(model.state_dict())"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
best, best_state = float("inf"), None
for _ in range(5):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() < best:
        best, best_state = loss.item(), net.state_dict()  # <-
optimizer.step()
net.load_state_dict(best_state)
"""
    fixed = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
best, best_state = float("inf"), None
for _ in range(5):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() < best:
        best, best_state = loss.item(), copy.deepcopy(net.state_dict())
net.load_state_dict(best_state)
"""
    healthy = ("""
# The state is another model's.
net, target = nn.Linear(8, 1), nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
state = net.state_dict()
for _ in range(5):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
    target.load_state_dict(state)
""", """
# Taken and loaded at once, as to test it.
net = nn.Linear(8, 1)
net.load_state_dict(net.state_dict())
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        # By model: (id of the first tensor's memory, updates by then, line) of each state.
        self.taken: WeakTable[list[tuple[int, Spot | None]]] = WeakTable()
        self.itself = 0

    def on_state(self, module: Any, state: Any, spot: Spot | None) -> None:
        earlier = self.taken.setdefault(module, [])
        if spot is not None and all(known_spot != spot for _, known_spot in earlier):
            earlier.append((self.session.updates, spot))

    def on_load(self, module: Any, state: Any, strict: bool, spot: Spot | None) -> None:
        tensors = dict((*module.named_parameters(), *module.named_buffers()))
        try:
            entries = [(tensors[name], value) for name, value in state.items() if name in tensors]
        except (AttributeError, TypeError):
            return  # not a mapping: load_state_dict says so
        shared = [
            tensor for tensor, value in entries
            if getattr(value, "_array", None) is tensor._array
            or (hasattr(value, "data_ptr") and value.numel() and tensor.numel()
                and value.data_ptr() == tensor.data_ptr())
        ]
        if not shared or len(shared) < len(entries):
            return
        earlier = [(updates, taken_spot)
                   for updates, taken_spot in self.taken.get(module, []) if taken_spot != spot]
        stale = [taken_spot for updates, taken_spot in earlier if updates < self.session.updates]
        if not stale:
            place = place_of(spot)
            self.itself += bool(place and self.session.updates
                                and find_loops(place.file, place.line))
            if self.itself < 3:
                return
        self.report("the loaded state shares the model's memory: loading changes nothing",
                    _alias(module, find_user_frame(1)), *stale[:1], spot,
                    **{"tensors shared": len(shared), "updates since": self.session.updates})


def alias_line(session: Any, frame: Any) -> Place | None:
    """The line that gave a second name to a model that was called."""
    lines = (_alias(module, frame) for module in list(session.roots))
    return next((line for line in lines if line is not None), None)


def _alias(module: Any, frame: Any) -> Place | None:
    """The line that gave the module a second name: `target = policy`."""
    while frame is not None:
        code = frame.f_code
        if not is_internal(code):
            for line, target, value in list_plain_assignments(code.co_filename):
                if read_variable(target, frame) is module and read_variable(value, frame) is module:
                    return Place(code.co_filename, line, code.co_qualname)
        frame = frame.f_back
    return None
