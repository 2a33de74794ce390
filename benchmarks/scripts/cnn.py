"""A convolutional network on digits, with DataLoader: two epochs and a test."""

import torch
import torch.nn.functional as F
from data import digits
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(),
    nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 64), nn.ReLU(), nn.Linear(64, 10),
)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
train = DataLoader(digits("train", 8000), batch_size=64, shuffle=True)
for _ in range(2):
    for images, labels in train:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
net.eval()
with torch.no_grad():
    hits = sum(int((net(x).argmax(1) == y).sum()) for x, y in DataLoader(digits("test", 2000), 500))
print(f"accuracy {hits / 2000:.2f}")
