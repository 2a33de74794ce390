"""A latent sample through which no gradient comes."""

from __future__ import annotations

from typing import Any

from ....tensor.tensor import Tensor
from ...events import Backward, ModuleCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_TIMES = 2


class SampleWithoutGradient(Rule):
    """Follows samples of distributions with trained parameters to the networks that read them."""

    id = "sample-without-gradient"
    level = Level.LIKELY
    needs = ("on_sample",)
    title = (
        "a network reads the result of sample(), which has no gradient; rsample() would have one"
    )
    why = (
        "The network that produced the mean and the scale learns nothing through the sample. "
        "Reported for distributions that support reparameterization if another network computes "
        f"with the sample in {_TIMES} passes and its log_prob is not used. Not reported for "
        "policies, which learn through log_prob."
    )
    fix = "draw with distribution.rsample()"
    broken = """
from flambeau.distributions import Normal
encoder, decoder = nn.Linear(8, 4), nn.Linear(2, 8)
optimizer = optim.Adam([*encoder.parameters(), *decoder.parameters()])
for _ in range(5):
    mean, scale = encoder(x).chunk(2, dim=1)
    q = Normal(mean, scale.exp())
    code = q.sample()  # <-
    loss = F.mse_loss(decoder(code), x) + 0.1 * (mean**2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "code = q.sample()  # <-": "code = q.rsample()",
    })
    healthy = ("""
# A policy, which learns by the logarithm of the probability.
from flambeau.distributions import Normal
actor, critic = nn.Linear(8, 4), nn.Linear(2, 1)
optimizer = optim.Adam([*actor.parameters(), *critic.parameters()])
for _ in range(5):
    mean, scale = actor(x).chunk(2, dim=1)
    q = Normal(mean, scale.exp())
    action = q.sample()
    value = critic(action)
    loss = -(q.log_prob(action).sum(1) * value.detach().squeeze(1)).mean()
    loss = loss + F.mse_loss(value, t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A prior that is not trained.
from flambeau.distributions import Normal
decoder, prior = nn.Linear(2, 8), Normal(torch.zeros(64, 2), torch.ones(64, 2))
optimizer = optim.Adam(decoder.parameters())
for _ in range(5):
    loss = F.mse_loss(decoder(prior.sample()), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.samples: dict[int, Spot | None] = {}  # by the address of the numbers
        self.read: dict[int, Spot | None] = {}
        self.times: dict[Spot | None, int] = {}

    def on_sample(self, distribution: Any, result: Any, spot: Spot | None) -> None:
        if isinstance(result, Tensor) and distribution.has_rsample:
            self.samples[result._array.ctypes.data] = spot

    def on_log_prob(self, distribution: Any, value: Any, result: Any, spot: Spot | None) -> None:
        if isinstance(value, Tensor):
            self.samples.pop(value._array.ctypes.data, None)
            self.read.pop(value._array.ctypes.data, None)

    def on_call(self, call: ModuleCall) -> None:
        if self.samples and call.recorded:
            for tensor in call.tensors:
                key = tensor._array.ctypes.data
                if key in self.samples and not tensor.requires_grad:
                    self.read[key] = self.samples[key]

    on_layer = on_call

    def on_backward(self, backward: Backward) -> None:
        for spot in set(self.read.values()):
            self.times[spot] = self.times.get(spot, 0) + 1
            if self.times[spot] >= _TIMES:
                self.report("the network behind the distribution gets no gradient through its "
                            "sample", spot, backward.spot, passes=self.times[spot])
        self.samples.clear()
        self.read.clear()

    on_gradient = on_backward
