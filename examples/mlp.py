"""Three linear layers learn to read digits: the plainest PyTorch program there is.

    flambeau examples/mlp.py
    python examples/mlp.py
"""

from __future__ import annotations

import mnist_data
import torch
from progress import Progress, options
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def training_step(model, criterion, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def main() -> None:
    parser = options(__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=5, help="(%(default)s)")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    images, labels = map(torch.from_numpy, mnist_data.load("train"))
    loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 256),
        nn.ReLU(),
        nn.Linear(256, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    print(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    step = training_step(model, criterion, optimizer)
    if args.compile:
        step = torch.compile(step)

    progress = Progress(args.epochs * len(loader), args)
    while not progress.finished:
        for x, y in loader:
            if progress.finished:
                break
            progress.record(step(x, y).item())

    seconds = progress.seconds
    images, labels = map(torch.from_numpy, mnist_data.load("test"))
    with torch.no_grad():
        accuracy = (model(images).argmax(1) == labels).float().mean().item()
    print(f"trained {len(progress.losses)} steps in {seconds:.1f} s")
    print(f"accuracy {accuracy:.2%} of {len(labels)} test images")


if __name__ == "__main__":
    main()
