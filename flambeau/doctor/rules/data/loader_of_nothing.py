"""A loader that gives no batch."""

from __future__ import annotations

from typing import Any

from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule


class LoaderOfNothing(Rule):
    """Looks at the length of a loader when a loop over it begins."""

    id = "loader-gives-nothing"
    level = Level.LIKELY
    needs = ("on_iterator",)
    title = "drop_last=True with a batch larger than the data set: the loop body never runs"
    why = (
        "The only batch is incomplete and is dropped, so nothing is trained and nothing is "
        "printed. Not reported if other loaders created by the same line return batches, as for "
        "clients with different amounts of data."
    )
    fix = "use a batch_size below the number of samples, or drop_last=False"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x, t), batch_size=100, shuffle=True, drop_last=True)  # <-
for _ in range(3):
    for xb, tb in loader:
        optimizer.zero_grad()
        F.mse_loss(net(xb), tb).backward()
        optimizer.step()
"""
    fixed = edit(broken, {
        "loader = DataLoader(TensorDataset(x, t), batch_size=100, shuffle=True, drop_last=True)"
        "  # <-": "loader = DataLoader(TensorDataset(x, t), batch_size=16, drop_last=True)",
    })
    healthy = (edit(broken, {
        # A part of the data that may be empty.
        "loader = DataLoader(TensorDataset(x, t), batch_size=100, shuffle=True, drop_last=True)"
        "  # <-": "loader = DataLoader(TensorDataset(x[:0], t[:0]), batch_size=16)",
        "for xb, tb in loader:": "for xb, tb in [(x, t), *loader]:",
    }), edit(broken, {
        # Clients of several sizes.
        "loader = DataLoader(TensorDataset(x, t), batch_size=100, shuffle=True, drop_last=True)"
        "  # <-":
            "sizes = (40, 4)\nloaders = [DataLoader(TensorDataset(x[:n], t[:n]), batch_size=16, "
            "drop_last=True) for n in sizes]",
        "for xb, tb in loader:": "for xb, tb in (batch for loader in loaders for batch in loader):",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.spots: dict[int, Spot | None] = {}
        self.lengths: dict[Any, list[int]] = {}  # of loaders, by line
        self.empty: dict[Any, tuple[int, int, Spot | None]] = {}

    def on_loader(self, loader: Any, spot: Spot | None) -> None:
        self.session.follow(loader)
        self.spots[id(loader)] = spot

    def on_iterator(self, loader: Any, spot: Spot | None) -> None:
        if id(loader) not in self.spots or not getattr(loader, "drop_last", False):
            return
        built_at = self.spots[id(loader)]
        batches, samples = len(loader), len(loader.dataset)
        self.lengths.setdefault(built_at, []).append(batches)
        if batches == 0 and samples > 0:
            self.empty[built_at] = samples, loader.batch_size, spot

    def finish(self) -> None:
        for built_at, (samples, size, spot) in self.empty.items():
            if not any(self.lengths[built_at]):
                self.report(f"the loader drops its only batch: {samples} samples, and batches of "
                            f"{size}", built_at, spot, samples=samples, batch_size=size)
