"""ResNet-18 for images of 32x32 (He et al., 2015), with a 3x3 stem and no first pooling."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    """Two normalised 3x3 convolutions beside a short cut, which is 1x1 where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.short_cut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.short_cut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(out)) + self.short_cut(x))


class ResNet18(nn.Module):
    """Images (batch, 3, 32, 32) to logits (batch, classes)."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        blocks, inputs = [], 64
        for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [Residual(inputs, outputs, stride), Residual(outputs, outputs, 1)]
            inputs = outputs
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()
        )
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.stem(x))  # (batch, 512, 4, 4)
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))
