"""A program as a typed user writes it: what checkers accept, and what types results have."""

from typing import assert_type

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn


class Net(nn.Module):
    """A module whose forward takes one tensor, which the base class leaves open."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.hidden(x))


a = torch.zeros(2, 3, dtype=torch.float32)
assert_type(torch.max(a), torch.Tensor)
assert_type(torch.max(a, 0).values, torch.Tensor)
assert_type(a.max(0).indices, torch.Tensor)
values, indices = torch.sort(a)
assert_type(values, torch.Tensor)
assert_type(a.topk(2).indices, torch.Tensor)
assert_type(torch.linalg.svd(a).S, torch.Tensor)
assert_type(a.sum() + 1, torch.Tensor)
assert_type(torch.split(a, 1), tuple[torch.Tensor, ...])
assert_type(a.shape, torch.Size)
torch.zeros(size=(2, 3))
torch.randint(0, 4, (2,), dtype=torch.int64)
optimizer = torch.optim.Adam(Net().parameters(), lr=1e-3)
optimizer.step()

# Mistakes that checkers report: mypy fails here on an ignore that nothing needs.
torch.zeros(2, dtyp=torch.float32)  # type: ignore[call-arg]
print(torch.max(a, 0).value)  # type: ignore[attr-defined]
nn.Linear(2, 3, baias=False)  # type: ignore[call-arg]
