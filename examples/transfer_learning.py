"""Transfer learning with torchvision: a frozen ResNet-18 and a new last layer, which alone learns.

Images are drawn, stripes that lie or stand, so nothing is downloaded; the backbone's weights are
random too (`--weights` takes a checkpoint). Runs with either library:
    flambeau examples/transfer_learning.py
    python examples/transfer_learning.py
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import models
from torchvision.transforms import v2

CLASSES = ("lying", "standing")


class Stripes(Dataset):
    """`count` noisy images (3, size, size) of coloured stripes."""

    def __init__(self, count: int, size: int, seed: int, transform=None) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(len(CLASSES), (count,), generator=generator)
        self.images = torch.stack([self.draw(int(label), size, generator) for label in self.labels])
        self.transform = transform

    @staticmethod
    def draw(label: int, size: int, generator: torch.Generator) -> torch.Tensor:
        period, phase = 4 + 8 * torch.rand(2, generator=generator)
        wave = torch.sin((torch.arange(size) + phase) * (2 * torch.pi / period))
        stripes = wave[:, None] if label == 0 else wave[None]
        colour = 0.2 + 0.3 * torch.rand(3, 1, 1, generator=generator)
        noise = 0.2 * torch.rand(3, size, size, generator=generator)
        return 0.4 + colour * stripes + noise

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int):
        image = self.images[index]
        return (image if self.transform is None else self.transform(image)), self.labels[index]


def network(weights: str | None = None) -> nn.Module:
    """ResNet-18 with a new head: only the head's parameters require gradients."""
    model = models.resnet18(weights=None)
    if weights is not None:
        model.load_state_dict(torch.load(weights))
    for parameter in model.parameters():
        parameter.requires_grad = False
    model.fc = nn.Linear(model.fc.in_features, len(CLASSES))
    return model


def train(model: nn.Module, loader: DataLoader, optimizer: torch.optim.Optimizer) -> float:
    """One epoch; the mean loss. The backbone's statistics stay as they are: it is in eval mode."""
    model.eval()
    total = 0.0
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
    return total / len(loader.dataset)


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader) -> float:
    """The share of images that are told right."""
    model.eval()
    right = sum((model(images).argmax(1) == labels).sum().item() for images, labels in loader)
    return right / len(loader.dataset)


def calibrate(model: nn.Module, loader: DataLoader) -> None:
    """Lets batch norm see the images once: random weights do not give statistics of 0 and 1."""
    model.train()
    with torch.no_grad():
        for images, _ in loader:
            model(images)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=256, help="images to learn from")
    parser.add_argument("--size", type=int, default=64, help="pixels of their sides")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--weights", help="a checkpoint of resnet18 (a .pth file)")
    options = parser.parse_args()

    torch.manual_seed(0)
    normalize = v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    augment = v2.Compose([v2.RandomHorizontalFlip(), normalize])
    training = Stripes(options.count, options.size, 1, augment)
    validation = Stripes(options.count // 2, options.size, 2, normalize)
    loader = DataLoader(training, batch_size=32, shuffle=True)
    check = DataLoader(validation, batch_size=64)

    model = network(options.weights)
    if options.weights is None:
        calibrate(model, loader)
    optimizer = torch.optim.Adam(model.fc.parameters(), lr=1e-2)
    for epoch in range(options.epochs):
        loss = train(model, loader, optimizer)
        print(f"epoch {epoch + 1}: loss {loss:.4f}, accuracy {accuracy(model, check):.3f}")


if __name__ == "__main__":
    main()
