"""A convolutional network learns to read digits, and reaches 97 % on images it has not seen.

The network of PyTorch's basic MNIST example on 10,000 of the images. Runs with either library:
    flambeau examples/mnist.py
    python examples/mnist.py
"""

from __future__ import annotations

import mnist_data
import torch
import torch.nn.functional as F
from progress import Progress, options
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """Two convolutions, two linear layers, dropout after either pair.

    PyTorch's example has `activation="relu"`. At ReLU's kink rounding alone decides whether a
    gradient passes, and so two builds of PyTorch drift 3 % apart within 100 steps; with GELU the
    loss curves of any two correct libraries stay together.
    """

    def __init__(self, activation: str = "gelu") -> None:
        super().__init__()
        self.activation = getattr(F, activation)
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(64 * 12 * 12, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.activation(self.conv1(x))  # (batch, 32, 26, 26)
        x = self.activation(self.conv2(x))  # (batch, 64, 24, 24)
        x = self.dropout1(F.max_pool2d(x, 2))  # (batch, 64, 12, 12)
        x = self.activation(self.fc1(torch.flatten(x, 1)))  # (batch, 128)
        return F.log_softmax(self.fc2(self.dropout2(x)), dim=1)


def dataset(split: str) -> TensorDataset:
    images, labels = mnist_data.load(split)
    return TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))


def training_step(model, optimizer):
    def step(images, labels):
        optimizer.zero_grad()
        loss = F.nll_loss(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def train(step, loader, scheduler, epochs, progress):
    for _ in range(epochs):
        for images, labels in loader:
            if progress.finished:
                return
            progress.record(step(images, labels).item())
        scheduler.step()


@torch.no_grad()
def test(model, loader):
    """Mean loss and share of right answers over the loader's images."""
    model.eval()
    loss, right, count = 0.0, 0, 0
    for images, labels in loader:
        output = model(images)
        loss += F.nll_loss(output, labels, reduction="sum").item()
        right += (output.argmax(dim=1) == labels).sum().item()
        count += len(labels)
    return loss / count, right / count


def exponential_average(values, keep=0.95):
    """The moving average of `values`, each step keeping that much of the average before."""
    average, averages = 0.0, []
    for i, value in enumerate(values, 1):
        average = keep * average + (1 - keep) * value
        averages.append(average / (1 - keep**i))  # the first ones are averages of few
    return averages


def picture(path, losses, images, labels, guesses):
    """The loss curve beside sixteen images with the network's guesses, wrong ones in red."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subfigures(1, 2)
    axes = left.subplots()
    steps = range(1, len(losses) + 1)
    axes.plot(steps, losses, linewidth=0.7, color="#b8cde4", label="each step")
    axes.plot(steps, exponential_average(losses), linewidth=1.8, color="#2166ac", label="smoothed")
    axes.set(xlabel="step", ylabel="training loss", title="loss", yscale="log")
    axes.legend(frameon=False)
    for axes, image, label, guess in zip(
        right.subplots(4, 4).flat, images, labels, guesses, strict=True
    ):
        axes.imshow(image[0], cmap="gray_r")
        axes.set_title(str(guess), color="black" if guess == label else "red")
        axes.axis("off")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = options(__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="(%(default)s)")
    parser.add_argument("--lr", type=float, default=1e-3, help="(%(default)s)")
    parser.add_argument("--gamma", type=float, default=0.5, help="lr factor an epoch (%(default)s)")
    parser.add_argument("--activation", choices=("gelu", "relu"), default="gelu")
    parser.add_argument("--save", metavar="FILE", help="write the trained weights there")
    parser.add_argument("--picture", metavar="PNG", help="draw the loss and sixteen guesses there")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    train_loader = DataLoader(dataset("train"), batch_size=args.batch_size, shuffle=True)
    test_data = dataset("test")
    test_loader = DataLoader(test_data, batch_size=500)
    model = Net(args.activation)
    optimizer = optim.Adam(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)

    step = training_step(model, optimizer)
    if args.compile:
        step = torch.compile(step)

    progress = Progress(args.epochs * len(train_loader), args)
    model.train()
    train(step, train_loader, scheduler, args.epochs, progress)
    seconds = progress.seconds
    loss, accuracy = test(model, test_loader)
    print(f"trained {len(progress.losses)} steps in {seconds:.1f} s")
    print(f"test loss {loss:.4f}, accuracy {accuracy:.2%} of {len(test_data)} images")
    if args.save:
        torch.save(model.state_dict(), args.save)
        print(f"weights in {args.save}")
    if args.picture:
        images, labels = test_data[:16]
        with torch.no_grad():
            guesses = model(images).argmax(dim=1)
        picture(
            args.picture, progress.losses, images.numpy(), labels.tolist(), guesses.tolist()
        )
        print(f"picture in {args.picture}")


if __name__ == "__main__":
    main()
