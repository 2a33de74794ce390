"""A dropout that drops nearly all, as p is taken for the share that is kept."""

from __future__ import annotations

from ...events import ModuleCall
from ...finding import Level
from ...places import place_of
from ...programs import edit
from ..rule import Rule

_NEARLY_ALL = 0.85
_SUSPICIOUS = 0.6  # where the line speaks of keeping


class DropoutKeepsLittle(Rule):
    """Looks at the p of dropout layers, and at the line that makes them."""

    id = "dropout-drops-nearly-all"
    level = Level.LIKELY
    needs = ("on_layer",)
    title = "dropout's p is the fraction that is dropped, not the fraction that is kept"
    why = (
        f"Reported for p >= {_NEARLY_ALL}, and for p >= {_SUSPICIOUS} if the line that creates the "
        "layer mentions keeping. Not reported for p = 1, which removes a branch."
    )
    fix = "nn.Dropout(1 - keep)"
    broken = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.9), nn.Linear(16, 3))  # <-
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.9), nn.Linear(16, 3))  # <-":
            "net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))",
    })
    healthy = (edit(fixed, {
        "net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))":
            "net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.8), nn.Linear(16, 3))",
    }), edit(fixed, {
        "net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))":
            "keep = 0.7\n"
            "net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(1 - keep), "
            "nn.Linear(16, 3))",
    }))

    def on_layer(self, call: ModuleCall) -> None:
        if "Dropout" not in type(call.module).__name__ or not call.module.training:
            return
        probability = getattr(call.module, "p", 0.0)
        if not isinstance(probability, float) or not _SUSPICIOUS <= probability < 1:
            return
        spot = self.session.built_at.get(call.module)
        place = place_of(spot)
        names_keep = place is not None and "keep" in place.text.lower()
        if probability >= _NEARLY_ALL or names_keep:
            self.report(f"dropout sets {probability:.0%} of its input to zero", spot, call.spot,
                        p=probability)
