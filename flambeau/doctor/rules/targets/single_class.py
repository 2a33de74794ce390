"""A softmax over a single number, which is always 1."""

from __future__ import annotations

from ...events import LossCall
from ...finding import Level
from ...graph import get_array, get_operator_name, get_saved
from ...programs import edit
from ..rule import Rule


class SingleClass(Rule):
    """Looks at how many classes a softmax, or the loss's own, runs over."""

    id = "softmax-of-one-number"
    level = Level.CERTAIN
    needs = ("on_loss",)
    title = "softmax over a single score is always 1: nothing is learned"
    why = "A network with one output for two classes needs a sigmoid, not a softmax."
    fix = "one output: binary_cross_entropy_with_logits; or two outputs: cross_entropy"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = F.cross_entropy(net(x), (t > 0).float())  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = F.cross_entropy(net(x), (t > 0).float())  # <-":
            "loss = F.binary_cross_entropy_with_logits(net(x), (t > 0).float())",
    })
    healthy = ("""
# Attention at the first step of a sequence, where there is one place to look at.
query, head = nn.Linear(8, 8), nn.Linear(8, 3)
optimizer = optim.SGD([*query.parameters(), *head.parameters()], lr=0.1)
for length in (1, 2, 3, 4):
    memory = torch.randn(64, length, 8)
    weights = F.softmax(query(x)[:, None] @ memory.transpose(1, 2), dim=-1)
    loss = F.cross_entropy(head((weights @ memory)[:, 0]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A single sample with several classes.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for i in range(4):
    loss = F.cross_entropy(net(x[i : i + 1]), y[i : i + 1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def on_loss(self, call: LossCall) -> None:
        if not call.recorded or not call.input.requires_grad or call.values.size < 2:
            return
        if call.name in ("cross_entropy", "nll_loss") and call.values.ndim > 1 \
                and call.classes == 1:
            self.report(f"{call.name} over 1 class is 0 whatever the network outputs", call.spot,
                        *self.origin(call.node), shape=str(call.values.shape))
            return
        node = call.node
        if node is None or get_operator_name(node) not in ("softmax", "log_softmax"):
            return
        output, dim = get_array(get_saved(node, "y")), get_saved(node, "dim")
        if output is not None and isinstance(dim, int) and output.shape[dim] == 1:
            self.report("softmax over 1 number is 1 whatever the network outputs",
                        *self.origin(node), call.spot, shape=str(output.shape), dim=dim)
