"""An LSTM learns to write like Hamlet, carrying its state from one passage to the next.

    flambeau examples/lstm.py
    python examples/lstm.py
"""

from __future__ import annotations

import torch
from progress import Progress, options
from text_data import Text
from torch import nn


class Writer(nn.Module):
    """Codes (batch, time) and a state to logits (batch, time, letters) and the next state."""

    def __init__(self, letters: int, width: int) -> None:
        super().__init__()
        self.letter = nn.Embedding(letters, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, letters)

    def forward(self, codes, state=None):
        out, state = self.lstm(self.letter(codes), state)
        return self.head(out), state


def passages(codes: torch.Tensor, rows: int, length: int):
    """The text as `rows` parallel strands, in steps of `length`: inputs and next letters."""
    per_row = (len(codes) - 1) // rows
    x = codes[: rows * per_row].view(rows, per_row)
    y = codes[1 : rows * per_row + 1].view(rows, per_row)
    for at in range(0, per_row - length + 1, length):
        yield x[:, at : at + length], y[:, at : at + length]


def training_step(model, criterion, optimizer):
    def step(x, y, state):
        logits, state = model(x, state)
        state = tuple(part.detach() for part in state)
        loss = criterion(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss, state

    return step


@torch.no_grad()
def write(model: Writer, codes: torch.Tensor, count: int) -> torch.Tensor:
    """Continues (1, time) by `count` letters drawn from the model's distribution."""
    logits, state = model(codes)
    for _ in range(count):
        drawn = torch.multinomial(logits[:, -1].softmax(dim=-1), 1)
        codes = torch.cat([codes, drawn], dim=1)
        logits, state = model(drawn, state)
    return codes


def main() -> None:
    parser = options(__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=15, help="(%(default)s)")
    parser.add_argument("--write", type=int, default=200, help="letters at the end (%(default)s)")
    args = parser.parse_args()
    rows, length = 32, 50

    torch.manual_seed(args.seed)
    text = Text()
    model = Writer(len(text.letters), width=128)
    print(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)

    step = training_step(model, criterion, optimizer)
    if args.compile:
        step = torch.compile(step)

    batches = list(passages(text.train, rows, length))
    progress = Progress(args.epochs * len(batches), args)
    for _ in range(args.epochs):
        state = None
        for x, y in batches:
            if progress.finished:
                break
            loss, state = step(x, y, state)
            progress.record(loss.item())

    print(f"trained {len(progress.losses)} steps in {progress.seconds:.1f} s")
    model.eval()
    with torch.no_grad():
        logits, _ = model(text.valid[None, :-1])
        loss = criterion(logits[0], text.valid[1:]).item()
    print(f"validation loss {loss:.4f} nats a letter")
    if args.write:
        print(text.decode(write(model, text.encode("HAMLET\n")[None], args.write)[0]))


if __name__ == "__main__":
    main()
