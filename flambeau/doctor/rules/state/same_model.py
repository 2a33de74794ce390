"""A model that is to be kept, and is the one that goes on training."""

from __future__ import annotations

import re
from typing import Any

from ....native.foundation.user_frames import find_user_frame, is_internal
from ....nn.module import Module
from ...events import Update
from ...finding import Level, Place
from ...programs import edit
from ...source import list_plain_assignments, read_variable
from ..rule import Rule

_COPY_WORDS = re.compile(r"(^|[._])(best|ema|teacher|backup|snapshot|frozen|old|previous|averaged?)"
                   r"([._]|$)|target_(net|model|policy|q|critic|actor)|(net|model|policy|q)_target")


class SameModel(Rule):
    """Looks for second names of the model that is being trained."""

    id = "model-not-copied"
    level = Level.LIKELY
    needs = ("after_step",)
    title = "the stored model is the one that continues training: a second name, not a copy"
    why = (
        "best_model = model gives one object two names, and both change in the next step. "
        "Reported when a model that an optimizer updates has a second name that suggests a "
        "different model: best, ema, teacher, old, target_net. Not reported for copies or for "
        "other names."
    )
    fix = "best_model = copy.deepcopy(model)"
    broken = """
net, best, best_net = nn.Linear(8, 1), float("inf"), None
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(5):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() < best:
        best = loss.item()
        best_net = net  # <-
"""
    fixed = edit(broken, {"best_net = net  # <-": "best_net = copy.deepcopy(net)"})
    healthy = ("""
# Two names that say the same.
net = nn.Linear(8, 1)
model = net
optimizer = optim.SGD(model.parameters(), lr=0.01)
for _ in range(5):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
""", """
# A copy first, then the name of a copy.
net = nn.Linear(8, 1)
copied = copy.deepcopy(net)
teacher = copied
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(5):
    optimizer.zero_grad()
    F.mse_loss(net(x), teacher(x).detach()).backward()
    optimizer.step()
""")

    def after_step(self, update: Update) -> None:
        number = update.number
        if number & (number - 1) and number % 64:
            return
        frame = find_user_frame(1)
        while frame is not None:
            code = frame.f_code
            if not is_internal(code):
                for line, target, value in list_plain_assignments(code.co_filename):
                    if _COPY_WORDS.search(target.lower()) and not _COPY_WORDS.search(value.lower()):
                        copy, model = read_variable(target, frame), read_variable(value, frame)
                        if copy is model and isinstance(model, Module) and self._is_trained(model):
                            self.report(f"{target} is {value} itself, which keeps changing",
                                        Place(code.co_filename, line, code.co_qualname))
            frame = frame.f_back

    def _is_trained(self, model: Any) -> bool:
        return any(id(p) in self.session.optimized for p in model.parameters())
