"""A small GPT learns to write like Hamlet, letter by letter, and gets below 2.0 nats a letter.

    flambeau examples/char_gpt.py
    python examples/char_gpt.py
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from progress import Progress, options
from text_data import Text
from torch import nn


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        parts = self.query_key_value(x).view(batch, time, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each (batch, heads, time, width/heads)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class GPT(nn.Module):
    """Codes (batch, time) to logits (batch, time, letters); time at most `context`."""

    def __init__(self, letters: int, context: int, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.context = context
        self.letter = nn.Embedding(letters, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters, bias=False)
        self.apply(self.initialise)

    @staticmethod
    def initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        x = self.letter(codes) + self.position(torch.arange(codes.shape[1]))
        return self.head(self.norm(self.blocks(x)))

    @torch.no_grad()
    def write(self, codes: torch.Tensor, count: int) -> torch.Tensor:
        """Continues (1, time) by `count` letters drawn from the model's distribution."""
        for _ in range(count):
            logits = self(codes[:, -self.context :])[:, -1]
            drawn = torch.multinomial(F.softmax(logits, dim=-1), 1)
            codes = torch.cat([codes, drawn], dim=1)
        return codes


def nats(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Mean negative log-likelihood of a letter."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def training_step(model, optimizer):
    def step(x, y):
        loss = nats(model, x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step


@torch.no_grad()
def validate(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    model.eval()
    parts = zip(x.split(64), y.split(64), strict=True)
    total = sum(nats(model, xs, ys).item() * len(xs) for xs, ys in parts)
    model.train()
    return total / len(x)


def main() -> None:
    parser = options(__doc__.split("\n")[0])
    parser.add_argument("--total", type=int, default=1000, help="steps planned (%(default)s)")
    parser.add_argument("--batch-size", type=int, default=12, help="(%(default)s)")
    parser.add_argument("--context", type=int, default=64, help="letters seen (%(default)s)")
    parser.add_argument("--layers", type=int, default=4, help="(%(default)s)")
    parser.add_argument("--width", type=int, default=128, help="(%(default)s)")
    parser.add_argument("--heads", type=int, default=4, help="(%(default)s)")
    parser.add_argument("--lr", type=float, default=2e-3, help="at its highest (%(default)s)")
    parser.add_argument("--write", type=int, default=300, help="letters at the end (%(default)s)")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    text = Text()
    model = GPT(len(text.letters), args.context, args.layers, args.width, args.heads)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=args.lr, betas=(0.9, 0.99), weight_decay=0.1
    )
    # A hundred steps up, then half a cosine down to a tenth.
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(
            (step + 1) / 100, 0.55 + 0.45 * math.cos(math.pi * min(1.0, step / args.total))
        ),
    )

    step = training_step(model, optimizer)
    if args.compile:
        step = torch.compile(step)

    progress = Progress(args.total, args)
    while not progress.finished:
        loss = step(*text.batch(args.batch_size, args.context))
        scheduler.step()
        progress.record(loss.item())

    print(f"trained {len(progress.losses)} steps in {progress.seconds:.1f} s")
    print(f"validation loss {validate(model, *text.validation(args.context)):.4f} nats a letter")
    if args.write:
        print(text.decode(model.write(text.encode("HAMLET\n")[None], args.write)[0]))


if __name__ == "__main__":
    main()
