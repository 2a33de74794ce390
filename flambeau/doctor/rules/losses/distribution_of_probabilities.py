"""Probabilities that a distribution takes for logits."""

from __future__ import annotations

from typing import Any

from ....tensor.tensor import Tensor
from ...finding import Level
from ...graph import find_producer, get_operator_name
from ...places import Spot
from ...programs import edit
from ..rule import Rule
from .softmax_before_cross_entropy import are_probabilities


class DistributionOfProbabilities(Rule):
    """Looks at the logits that Categorical, OneHotCategorical and Bernoulli are given."""

    id = "distribution-of-probabilities"
    level = Level.CERTAIN
    needs = ("on_distribution",)
    title = "Categorical(logits=...) receives probabilities: it applies softmax to them again"
    why = (
        "The resulting probabilities are nearly uniform whatever the network outputs: with three "
        "classes none can exceed 0.58. Not reported for log-probabilities, which are valid logits."
    )
    fix = "Categorical(probs=p), or drop the softmax: Categorical(logits=scores)"
    broken = """
from flambeau.distributions import Categorical
policy = nn.Sequential(nn.Linear(8, 3), nn.Softmax(dim=1))
optimizer = optim.Adam(policy.parameters())
for _ in range(4):
    actions = Categorical(logits=policy(x))  # <-
    chosen = actions.sample()
    loss = -(actions.log_prob(chosen) * t.squeeze(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "actions = Categorical(logits=policy(x))  # <-": "actions = Categorical(probs=policy(x))",
    })
    healthy = ("""
# Logarithms of probabilities are logits.
from flambeau.distributions import Categorical
policy = nn.Sequential(nn.Linear(8, 3), nn.LogSoftmax(dim=1))
loss = -Categorical(logits=policy(x)).log_prob(y).mean()
loss.backward()
""", """
# Scores that happen to lie between 0 and 1.
from flambeau.distributions import Categorical
policy = nn.Sequential(nn.Linear(8, 3), nn.Hardsigmoid())
loss = -Categorical(logits=4 * policy(x)).log_prob(y).mean()
loss.backward()
""")

    def on_distribution(self, distribution: Any, logits: Any, spot: Spot | None) -> None:
        if not isinstance(logits, Tensor):
            return
        node = find_producer(logits)
        name = get_operator_name(node) if node is not None else ""
        binary = type(distribution).__name__ == "Bernoulli"
        expected = "sigmoid" if binary else "softmax"
        values = logits._array
        if name == expected or (not binary and name != "log_softmax" and values.ndim == 2
                                and len(values) > 1 and are_probabilities(values, 1)):
            self.report(f"{type(distribution).__name__} applies {expected} to probabilities", spot,
                        *([] if node is None else self.origin(node)),
                        range=[float(values.min()), float(values.max())])
