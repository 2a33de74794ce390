"""A convolutional classifier: batch norm, dropout, flips, a OneCycle schedule."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.GroupNorm(4, 32),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d((2, 2)),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(128, 10))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        return self.head(self.features(x))


data = TensorDataset(torch.randn(192, 3, 16, 16), torch.randint(0, 10, (192,)))
train, val = random_split(data, [160, 32], generator=torch.Generator().manual_seed(1))
loader = DataLoader(train, batch_size=32, shuffle=True, drop_last=True)
model = Net()
print(model, sum(p.numel() for p in model.parameters()))
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, epochs=3, steps_per_epoch=len(loader))
for epoch in range(3):
    model.train()
    total = correct = 0
    for x, y in loader:
        if torch.rand(()) < 0.5:
            x = x.flip(-1)
        opt.zero_grad(set_to_none=True)
        out = model(x)
        loss = F.cross_entropy(out, y, label_smoothing=0.1)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        total += loss.item() * len(x)
        correct += (out.argmax(1) == y).sum().item()
    model.eval()
    with torch.no_grad():
        losses = [F.cross_entropy(model(x), y).item() for x, y in DataLoader(val, 16)]
    print(
        epoch,
        round(total / 160, 4),
        correct,
        round(sum(losses) / len(losses), 4),
        norm.item(),
        sched.get_last_lr()[0],
    )
