"""Models of several sizes as functions of their input, for `forward_mode.py`."""

from __future__ import annotations

from typing import Any


def build() -> dict[str, tuple[Any, Any]]:
    """By name: a model and its input."""
    return {**build_chains(), **build_mlps(), **build_convolutional(), **build_transformers(),
            **build_recurrent()}


def build_mlp(*widths: int, act: str = "Tanh") -> Any:
    """Linear layers with activations between them."""
    from torch import nn

    layers: list[Any] = []
    for a, b in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(a, b), getattr(nn, act)()]
    return nn.Sequential(*layers[:-1])


def build_chains() -> dict[str, tuple[Any, Any]]:
    """Chains of linear layers."""
    import torch

    draw, mlp = torch.randn, build_mlp
    return {
        "MLP 4-8-1, batch 16": (mlp(4, 8, 1), draw(16, 4)),
        "MLP 8-32-32-4, 32": (mlp(8, 32, 32, 4, act="ReLU"), draw(32, 8)),
        "policy 17-64-64-6, 64": (mlp(17, 64, 64, 6), draw(64, 17)),
        "PINN 2-32x3-1, 256": (mlp(2, 32, 32, 32, 1), draw(256, 2)),
        "PINN 2-64x4-1, 1000": (mlp(2, 64, 64, 64, 64, 1), draw(1000, 2)),
        "MLP 784-256-256-10, 128": (mlp(784, 256, 256, 10, act="ReLU"), draw(128, 784)),
        "MLP 512-2048-2048-512, 256": (mlp(512, 2048, 2048, 512, act="GELU"), draw(256, 512)),
    }


def build_mlps() -> dict[str, tuple[Any, Any]]:
    """Other models of linear layers."""
    import torch
    from torch import nn

    draw = torch.randn

    class Siren(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 128), nn.Linear(128, 128), nn.Linear(128, 1)])

        def forward(self, x: Any) -> Any:
            for layer in self.layers[:-1]:
                x = torch.sin(30 * layer(x))
            return self.layers[-1](x)

    class Autoencoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = build_mlp(784, 200, 40, act="ReLU")
            self.decoder = build_mlp(20, 200, 784)

        def forward(self, x: Any) -> Any:
            mean, log_variance = self.encoder(x).chunk(2, 1)
            return self.decoder(mean + torch.exp(0.5 * log_variance)).sigmoid()

    return {
        "SIREN 2-128x2-1, 2000": (Siren(), draw(2000, 2)),
        "MLP 64-128-10 layer norm, 256": (nn.Sequential(
            nn.Linear(64, 128), nn.LayerNorm(128), nn.SiLU(), nn.Linear(128, 10)), draw(256, 64)),
        "MLP 64-128-10 batch norm, eval, 256": (nn.Sequential(
            nn.Linear(64, 128), nn.BatchNorm1d(128), nn.GELU(), nn.Linear(128, 10)).eval(),
            draw(256, 64)),
        "VAE 784-200-20, 64": (Autoencoder(), torch.rand(64, 784)),
    }


def build_convolutional() -> dict[str, tuple[Any, Any]]:
    """Small networks for images."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))

        def forward(self, x: Any) -> Any:
            return torch.relu(x + self.body(x))

    def stage(a: int, b: int, size: int, pool: Any) -> list[Any]:
        return [nn.Conv2d(a, b, size, padding=size // 2), nn.ReLU(), pool(2)]

    lenet = nn.Sequential(*stage(1, 6, 5, nn.AvgPool2d), *stage(6, 16, 5, nn.AvgPool2d),
                          nn.Flatten(), nn.Linear(784, 120), nn.Tanh(), nn.Linear(120, 10))
    cnn = nn.Sequential(*stage(3, 16, 3, nn.MaxPool2d), *stage(16, 32, 3, nn.MaxPool2d),
                        nn.Flatten(), nn.Linear(2048, 10))
    return {
        "LeNet 28x28, 8": (lenet, torch.randn(8, 1, 28, 28)),
        "CNN 32x32, 16": (cnn, torch.randn(16, 3, 32, 32)),
        "2 residual blocks of 64, eval, 8": (
            nn.Sequential(Block(64), Block(64)).eval(), torch.randn(8, 64, 16, 16)),
        "2 residual blocks of 32, training, 8": (
            nn.Sequential(Block(32), Block(32)), torch.randn(8, 32, 16, 16)),
    }


def build_transformers() -> dict[str, tuple[Any, Any]]:
    """Layers of transformers."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    draw = torch.randn

    class Decoder(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads, self.first, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.feed = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            n, time, width = x.shape
            parts = self.qkv(self.first(x)).view(n, time, 3, self.heads, width // self.heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(n, time, width))
            return x + self.feed(self.second(x))

    def encoder(width: int, heads: int, inner: int) -> Any:
        return nn.TransformerEncoderLayer(width, heads, inner, dropout=0.0, batch_first=True)

    return {
        "encoder layer 64, 8x32": (encoder(64, 4, 128), draw(8, 32, 64)),
        "encoder layer 256, 16x64": (encoder(256, 8, 1024), draw(16, 64, 256)),
        "GPT block 128, 4x64": (Decoder(128, 4), draw(4, 64, 128)),
    }


def build_recurrent() -> dict[str, tuple[Any, Any]]:
    """Recurrent layers."""
    import torch
    from torch import nn

    draw = torch.randn

    class Recurrent(nn.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return self.layer(x)[0]

    return {
        "LSTM 16-32, 20x8": (Recurrent(nn.LSTM(16, 32)), draw(20, 8, 16)),
        "LSTM 64-128 two layers, 30x32": (Recurrent(nn.LSTM(64, 128, 2)), draw(30, 32, 64)),
        "LSTM 32-64 projected to 16, 30x16": (
            Recurrent(nn.LSTM(32, 64, proj_size=16)), draw(30, 16, 32)),
        "GRU 32-64 both ways, 30x16": (
            Recurrent(nn.GRU(32, 64, bidirectional=True)), draw(30, 16, 32)),
        "RNN 8-16, 10x4": (Recurrent(nn.RNN(8, 16)), draw(10, 4, 8)),
    }
