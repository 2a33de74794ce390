"""Notes below errors of layers, losses, states and loaders: what to do. Messages stay PyTorch's."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.utils.data import DataLoader

logits, labels = torch.zeros(8, 3), torch.arange(8) % 3


@pytest.mark.parametrize(
    ("call", "message", "note"),
    [
        (lambda: F.cross_entropy(labels, logits), "for 'Long'", "are they swapped"),
        (lambda: F.cross_entropy(logits, labels.float()), "but got Float", "target.long()"),
        (lambda: F.cross_entropy(logits, labels[:, None]), "multi-target", "target.squeeze(1)"),
        (lambda: F.cross_entropy(logits, labels + 1), "Target 3 is out of bounds", "target - 1"),
        (lambda: nn.CrossEntropyLoss(logits, labels), "ambiguous", "construct it first"),
        (lambda: nn.Conv2d(3, 4, 3)(torch.zeros(2, 8, 9, 3)), "to have 3 channels",
         "x.permute(0, 3, 1, 2)"),
        (lambda: nn.Linear(784, 2)(torch.zeros(2, 1, 28, 28)), "cannot be multiplied",
         "x.flatten(1) has 1 * 28 * 28 = 784 features"),
        (lambda: nn.Linear(4, 2)(torch.zeros(2, 6)), "cannot be multiplied", "in_features=6"),
        (lambda: nn.Linear(1, 1).load_state_dict(
            {"module.weight": torch.zeros(1, 1), "module.bias": torch.zeros(1)}),
         "Missing key", "all 2 names differ by the prefix 'module.'"),
        (lambda: list(DataLoader([torch.zeros(3), torch.zeros(4)], 2)), "equal size",
         "dataset[1] is a tensor (4,): pad them"),
        (lambda: list(DataLoader([torch.zeros(3), None], 2)), "NoneType", "dataset[1] is None"),
    ],
)
def test_note(call, message, note):
    with pytest.raises(Exception, match=".") as caught:
        call()
    assert message in str(caught.value)
    assert note in "\n".join(caught.value.__notes__)
    assert note not in str(caught.value)


def test_names_of_another_architecture_get_no_note():
    """Some names that end alike are no prefix."""
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
    other = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.ReLU(), nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="Missing key") as caught:
        net.load_state_dict(other.state_dict())
    assert not hasattr(caught.value, "__notes__")
