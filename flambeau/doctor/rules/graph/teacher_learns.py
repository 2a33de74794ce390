"""A teacher that is trained towards its student."""

from __future__ import annotations

import weakref
from typing import Any

from ....nn.parameter import Parameter
from ...events import Backward, LossCall
from ...finding import Level
from ...graph import Graph, find_producer, find_spot
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_TIMES = 3


class TeacherLearns(Rule):
    """Looks for distributions as targets that come from a trained network with a gradient."""

    id = "teacher-learns"
    level = Level.LIKELY
    needs = ("on_loss", "on_backward")
    title = "the distillation loss also trains the teacher, toward the student's output"
    why = (
        "The target of a distillation must be a constant. Reported when the target of kl_div or "
        "cross_entropy requires grad and comes from a different network than the input, that "
        f"network was loaded or trained before, and an optimizer holds its parameters, in {_TIMES} "
        "passes. Not reported for two networks that teach each other from the start or for a "
        "symmetric loss."
    )
    fix = (
        "with torch.no_grad(): t = teacher(x), or t.detach(); pass only the student to the "
        "optimizer"
    )
    broken = """
teacher, student = nn.Linear(8, 3), nn.Linear(8, 3)
for optimizer, net in ((optim.Adam(teacher.parameters()), teacher),
                       (optim.Adam([*teacher.parameters(), *student.parameters()]), student)):
    for _ in range(6):
        loss = F.cross_entropy(net(x), y)
        if net is student:
            wanted = F.softmax(teacher(x), dim=1)  # <-
            loss = loss + F.kl_div(F.log_softmax(student(x), 1), wanted, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    fixed = edit(broken, {
        "wanted = F.softmax(teacher(x), dim=1)  # <-":
            "wanted = F.softmax(teacher(x), dim=1).detach()",
        "(optim.Adam([*teacher.parameters(), *student.parameters()]), student)):":
            "(optim.Adam(student.parameters()), student)):",
    })
    healthy = ("""
# Two networks that teach each other.
a, b = nn.Linear(8, 3), nn.Linear(8, 3)
optimizer = optim.Adam([*a.parameters(), *b.parameters()])
for _ in range(6):
    one_way = F.kl_div(F.log_softmax(a(x), 1), F.softmax(b(x), 1), reduction="batchmean")
    back = F.kl_div(F.log_softmax(b(x), 1), F.softmax(a(x), 1), reduction="batchmean")
    loss = F.cross_entropy(a(x), y) + F.cross_entropy(b(x), y) + one_way + back
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A learned prior: the posterior is the target, and learns.
prior, posterior, decoder = nn.Linear(8, 4), nn.Linear(8, 4), nn.Linear(4, 1)
nets = nn.ModuleList([prior, posterior, decoder])
optimizer = optim.Adam(nets.parameters())
for _ in range(6):
    q = F.softmax(posterior(x), 1)
    kl = F.kl_div(F.log_softmax(prior(x), 1), q, reduction="batchmean")
    loss = F.mse_loss(decoder(q), t) + 0.1 * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.loaded: set[int] = set()
        self.sides: list[tuple[Any, Any, Spot | None]] = []
        self.together: dict[int, set[int]] = {}  # what was trained with a parameter at first
        self.times = 0

    def on_load(self, module: Any, state: Any, strict: bool, spot: Spot | None) -> None:
        self.loaded |= {id(p) for p in module.parameters()}

    def on_loss(self, call: LossCall) -> None:
        target = call.target
        if call.name in ("kl_div", "cross_entropy") and getattr(target, "requires_grad", False):
            student, teacher = find_producer(call.input), find_producer(target)
            if student is not None and teacher is not None:
                self.sides.append((weakref.ref(student), weakref.ref(teacher), call.spot))

    def on_backward(self, backward: Backward) -> None:
        sides, self.sides = self.sides, []
        if not backward.watched:
            return
        if len(sides) == 1:
            self._judge(*sides[0])
        trained = {key
                   for key, leaf in backward.graph.leaves.items() if isinstance(leaf, Parameter)}
        for key in trained:
            self.together.setdefault(key, trained)

    def _judge(self, student: Any, teacher: Any, spot: Spot | None) -> None:
        nodes = student(), teacher()
        if None in nodes:
            return
        leaves, teacher_leaves = ({key for key, leaf in Graph([node]).leaves.items()
                       if isinstance(leaf, Parameter)} for node in nodes)
        optimized = self.session.optimized
        if not leaves or not teacher_leaves or leaves & teacher_leaves \
                or not all(key in optimized for key in teacher_leaves):
            return
        if not teacher_leaves <= self.loaded and not all(
            not self.together.get(key, leaves) & leaves for key in teacher_leaves
        ):
            return
        self.times += 1
        if self.times >= _TIMES:
            self.report("the target of the distillation requires grad: the teacher is trained",
                        find_spot(nodes[1]), spot, parameters=len(teacher_leaves))
